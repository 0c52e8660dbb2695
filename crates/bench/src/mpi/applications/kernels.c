/* How an iteration of a kernel is timed. */

struct kernel {
	const char *name;
	int iterations; /* of a round */
	void (*begin)(long bytes);
	void (*round)(void);
	void (*end)(void);
};

static const struct kernel KERNELS[] = {
	{"cg", CG_ITERATIONS, cg_begin, cg_round, cg_end},
	{"mg", MG_CYCLES, mg_begin, mg_round, mg_end},
	{"ft", 2, ft_begin, ft_round, ft_end},
	{"is", 1, is_begin, is_round, is_end},
};

/* Seconds of the slowest, and those inside MPI of who has fewest there. */
static double run_rounds(const struct kernel *kernel, long count, double *least_inside)
{
	MPI_Barrier(MPI_COMM_WORLD);
	inside = 0;
	double begin = MPI_Wtime(), taken, slowest;
	for (long i = 0; i < count; i++)
		kernel->round();
	taken = MPI_Wtime() - begin;
	double own_inside = inside;
	MPI_Allreduce(&own_inside, least_inside, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&taken, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

/* ns an iteration, and of those inside MPI. */
static double measure_kernel(const struct kernel *kernel, long bytes, double seconds, double *inside_ns)
{
	double least_inside;
	kernel->begin(bytes);
	kernel->round(); /* first contact is not what is measured */
	long count = (long)(seconds / run_rounds(kernel, 1, &least_inside)) + 1;
	double per_iteration = 1e9 / (count * kernel->iterations);
	double value = run_rounds(kernel, count, &least_inside) * per_iteration;
	*inside_ns = least_inside * per_iteration;
	kernel->end();
	return value;
}
