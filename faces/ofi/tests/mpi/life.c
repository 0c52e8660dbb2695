/* What happens to MPI programs in everyday life: `cargo xtask test` (xtask/src/mpi/life.rs) does it to this one.
 * Usage: life work SECONDS     verified messages of mixed sizes between neighbours for that long; each rank first prints its process id
 *        life fork ROUNDS      children by fork, system and popen while large transfers are under way
 *        life brief            in and out again; rank 0 prints how long MPI_Init and MPI_Finalize took, in ms
 *        life passive send|get FILE   rank 1 computes and calls nothing, while rank 0 sends it 16 MB or gets them from its window, until
 *                              FILE is there, which rank 0 makes when that is over; rank 0 prints how long it took, in ms */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 8 << 20, BULK = 16 << 20 };

static int rank, size, next, last;

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void work(double seconds)
{
	static const long lengths[] = {1, 100, 5000, 70000, 1000000};
	char *out = malloc(1000000), *in = malloc(1000000);
	double end = MPI_Wtime() + seconds;
	int is_over = 0;
	printf("rank %d is %ld\n", rank, (long)getpid());
	fflush(stdout);
	for (long round = 0; !is_over; round++) {
		long len = lengths[round % 5];
		memset(out, (int)(rank + round), len);
		MPI_Sendrecv(out, len, MPI_CHAR, next, 1, in, len, MPI_CHAR, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		must(in[0] == (char)(last + round) && in[len - 1] == (char)(last + round), "a byte is wrong");
		if (round % 5 == 4) {
			is_over = MPI_Wtime() > end;
			MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD);
		}
	}
	printf("rank %d ends well\n", rank);
	free(out);
	free(in);
}

/* The child writes to memory that is being sent and received: its own copy of it, and nobody else's. */
static void with_fork(char *out, char *in)
{
	pid_t child = fork();
	must(child >= 0, "fork failed");
	if (child == 0) {
		memset(out, 0x55, LARGE);
		memset(in, 0x55, LARGE);
		_exit(3);
	}
	int status = 0;
	must(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3, "the child ended otherwise");
}

static void with_children(long rounds)
{
	char *out = malloc(LARGE), *in = malloc(LARGE), line[64] = "";
	for (long round = 0; round < rounds; round++) {
		MPI_Request both[2];
		char mine = (char)(rank * 7 + round), theirs = (char)(last * 7 + round);
		memset(out, mine, LARGE);
		memset(in, ~theirs, LARGE);
		MPI_Irecv(in, LARGE, MPI_CHAR, last, 1, MPI_COMM_WORLD, &both[0]);
		MPI_Isend(out, LARGE, MPI_CHAR, next, 1, MPI_COMM_WORLD, &both[1]);
		if (round % 3 == 0) {
			with_fork(out, in);
		} else if (round % 3 == 1) {
			must(system("true") == 0, "system failed");
		} else {
			FILE *pipe = popen("echo hello", "r");
			must(pipe && fgets(line, sizeof line, pipe) && !strcmp(line, "hello\n"), "popen failed");
			pclose(pipe);
		}
		MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
		for (long i = 0; i < LARGE; i++)
			must(in[i] == theirs, "a byte is wrong");
	}
	printf("rank %d ends well\n", rank);
}

static void sleep_ms(long ms)
{
	struct timespec span = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&span, NULL);
}

static char at(long i) { return (char)(i * 31 + i / 251); }

/* Computes until a file is there, with no call but for that and the time now and then; whether it came to be there. */
static int compute_until(const char *path, double ms_max)
{
	volatile double sum = 0;
	for (double end = now_ms() + ms_max; now_ms() < end;) {
		if (access(path, F_OK) == 0)
			return 1;
		for (int i = 1; i < 100000; i++)
			sum += 1.0 / i;
	}
	return 0;
}

/* Rank 1 computes until a file says that what rank 0 began meanwhile has ended: were it to wait for rank 1, it would not. However slow
 * the machine is. */
static void passive(int is_get, const char *path)
{
	char *bulk = malloc(BULK);
	double took = 0;
	MPI_Win window;
	MPI_Request request = MPI_REQUEST_NULL;
	memset(bulk, 0, BULK);
	for (long i = 0; rank == (is_get ? 1 : 0) && i < BULK; i++)
		bulk[i] = at(i);
	/* Memory of ours, since windows that an MPI allocates on one host it may share; locked before, since MPICH's locks want an answer of
	 * the target's. */
	MPI_Win_create(bulk, rank == 1 ? BULK : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
	if (rank == 1 && !is_get)
		MPI_Irecv(bulk, BULK, MPI_CHAR, 0, 4, MPI_COMM_WORLD, &request);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1) {
		must(compute_until(path, 60e3), "it waits for its target: no end in 60 s of computing");
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	} else {
		sleep_ms(300);
		double begin = now_ms();
		if (is_get) {
			MPI_Get(bulk, BULK, MPI_CHAR, 1, 0, BULK, MPI_CHAR, window);
			MPI_Win_flush(1, window);
		} else {
			MPI_Send(bulk, BULK, MPI_CHAR, 1, 4, MPI_COMM_WORLD);
		}
		took = now_ms() - begin;
		FILE *file = fopen(path, "w");
		must(file && !fclose(file), "the file cannot be made");
		printf("passive %.0f\n", took);
	}
	for (long i = 0; rank == (is_get ? 0 : 1) && i < BULK; i++)
		must(bulk[i] == at(i), "a byte is wrong");
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
	double begin = now_ms(), ready;
	MPI_Init(&argc, &argv);
	ready = now_ms();
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	next = (rank + 1) % size;
	last = (rank + size - 1) % size;
	must(argc >= 2, "what am I to do?");
	if (!strcmp(argv[1], "work"))
		work(atof(argv[2]));
	else if (!strcmp(argv[1], "fork"))
		with_children(atol(argv[2]));
	else if (!strcmp(argv[1], "passive"))
		passive(!strcmp(argv[2], "get"), argv[3]);
	int mine = rank, theirs = -1;
	MPI_Sendrecv(&mine, 1, MPI_INT, next, 2, &theirs, 1, MPI_INT, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	must(theirs == last, "a message is wrong");
	double over = now_ms();
	MPI_Finalize();
	if (rank == 0 && !strcmp(argv[1], "brief"))
		printf("brief %.0f %.0f\n", ready - begin, now_ms() - over);
	return 0;
}
