/* What `packhorse compare --mpi --applications` measures: the inner loops of programs, and a program that works until its message is there.
 * Usage: applications SECONDS pin|free CASE...
 *   cg:BYTES         conjugate gradients, a sparse matrix by rows: four exchanges of BYTES with each neighbour, each before a
 *                    product of a third of a millisecond, and two reductions of 8 bytes an iteration
 *   mg:BYTES         multigrid, a grid in slabs: halos of BYTES, a quarter and a sixteenth of it, each before computations of about 60 us
 *   ft:BYTES         a Fourier transform in two dimensions: one transposition (MPI_Alltoall) of BYTES a rank
 *   is:BYTES         a bucket sort: keys of BYTES a rank (MPI_Alltoallv), and small reductions
 *   rmpp/WORK:BYTES  the loop of Figure 9 of the RMPP paper: isend, irecv, pieces of work of WORK ns until it is received; four under way;
 *                    the partner sends everything back
 * Rank 0 prints a line "row CASE BYTES VALUE" for each: ns an iteration, of the slowest rank, and a line "row CASE/mpi BYTES VALUE": ns of
 * it spent inside MPI, of the rank that spent least there, for the others also waited for it; for rmpp bytes a second that come back, times
 * the share of the processor that went into the work. How much is computed is a matter of BYTES, not of time: the work is the same whoever
 * carries the messages. All results are compared with what is known of them; one that is wrong ends the program. */

enum { UP = 1, DOWN = 2 };

/* Seconds inside MPI since it was set to 0. The speed of the cores, which changes from minute to minute on a machine that is shared, is
 * hardly in it. */
static double inside, entered;
static int result;

#define INSIDE(call) (entered = MPI_Wtime(), result = (call), inside += MPI_Wtime() - entered, result)
#define MPI_Allreduce(...) INSIDE(MPI_Allreduce(__VA_ARGS__))
#define MPI_Alltoall(...) INSIDE(MPI_Alltoall(__VA_ARGS__))
#define MPI_Alltoallv(...) INSIDE(MPI_Alltoallv(__VA_ARGS__))
#define MPI_Irecv(...) INSIDE(MPI_Irecv(__VA_ARGS__))
#define MPI_Isend(...) INSIDE(MPI_Isend(__VA_ARGS__))
#define MPI_Send(...) INSIDE(MPI_Send(__VA_ARGS__))
#define MPI_Waitall(...) INSIDE(MPI_Waitall(__VA_ARGS__))

static int last, next; /* neighbours in a ring; of two ranks each is both to the other */

static void wrong(const char *what, double by)
{
	fprintf(stderr, "rank %d: %s: the result is wrong by %g\n", rank, what, by);
	MPI_Abort(MPI_COMM_WORLD, 4);
}

static void *room(size_t len)
{
	void *memory = calloc(1, len);
	if (!memory)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return memory;
}

/* From -1 to 1, as good as random, the same for all who ask for this number. */
static double scatter(uint64_t number)
{
	number = (number + 1) * 0x9e3779b97f4a7c15u;
	number = (number ^ (number >> 29)) * 0xbf58476d1ce4e5b9u;
	return (double)((number ^ (number >> 32)) & 0xfffff) / 0x80000 - 1;
}

static double largest_difference(const double *a, const double *b, long count)
{
	double most = 0;
	for (long i = 0; i < count; i++) {
		double by = fabs(a[i] - b[i]);
		most = by > most || by != by ? by : most; /* what is no number is the most of all */
		if (most != most)
			break;
	}
	return most;
}

static void verify(const char *what, double by, double allowed)
{
	if (!(by <= allowed))
		wrong(what, by);
}
