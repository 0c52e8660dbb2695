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

static double run_rounds(const struct kernel *kernel, long count)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime(), taken, slowest;
	for (long i = 0; i < count; i++)
		kernel->round();
	taken = MPI_Wtime() - begin;
	MPI_Allreduce(&taken, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

/* ns an iteration. */
static double measure_kernel(const struct kernel *kernel, long bytes, double seconds)
{
	kernel->begin(bytes);
	kernel->round(); /* first contact is not what is measured */
	long count = (long)(seconds / run_rounds(kernel, 1)) + 1;
	double value = run_rounds(kernel, count) / (count * kernel->iterations) * 1e9;
	kernel->end();
	return value;
}
