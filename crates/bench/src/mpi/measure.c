/* What `packhorse compare --mpi` measures, the same program over every transport.
 * Usage: measure SECONDS pin|free PATTERN:BYTES... With `pin` each rank's thread keeps to a core of its own, as far as there
 * are so many. Rank 0 prints a line "row PATTERN BYTES VALUE" for each.
 *   pingpong   half a round trip in ns, median; between rank 0 and the first rank of the second half
 *   rate       messages a second, one way, 64 on their way, an answer to each 64
 *   stream     bytes a second, likewise, as many on their way as make 4 MB
 *   overlap    how much of a transfer is hidden behind a computation of three times its length, in percent: the lesser of both roles
 *   others     collective operations by name, ns for each, of the slowest rank
 * How often is found out first and agreed upon, so that no rank has to be told when to stop. */

enum { DATA = 1, ANSWER = 2, WINDOW = 64, IN_FLIGHT_LEN = 4 << 20, SAMPLE_COUNT_MAX = 100000, TRIAL_COUNT = 5 };

static int peer = -1; /* only of the two that talk */
static char *out, *in;

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void round_trip(long bytes)
{
	if (rank == 0)
		MPI_Send(out, bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD);
	MPI_Recv(in, bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank != 0)
		MPI_Send(out, bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD);
}

static long window_of(int is_stream, long bytes)
{
	long window = is_stream ? IN_FLIGHT_LEN / bytes : WINDOW;
	return window < 2 ? 2 : window > WINDOW ? WINDOW : window;
}

/* A window of messages from rank 0, and the answer. */
static void burst(long bytes, long window)
{
	MPI_Request requests[WINDOW];
	for (long i = 0; i < window; i++)
		if (rank == 0)
			MPI_Isend(out, bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD, &requests[i]);
		else
			MPI_Irecv(in, bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD, &requests[i]);
	MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
	if (rank == 0)
		MPI_Recv(in, 1, MPI_CHAR, peer, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(out, 1, MPI_CHAR, peer, ANSWER, MPI_COMM_WORLD);
}

static void collective(const char *name, long bytes)
{
	long count = bytes / (long)sizeof(float);
	if (!strcmp(name, "barrier"))
		MPI_Barrier(MPI_COMM_WORLD);
	else if (!strcmp(name, "bcast"))
		MPI_Bcast(out, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
	else if (!strcmp(name, "reduce"))
		MPI_Reduce(out, in, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
	else if (!strcmp(name, "allreduce"))
		MPI_Allreduce(out, in, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	else if (!strcmp(name, "allgather"))
		MPI_Allgather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD);
	else if (!strcmp(name, "alltoall"))
		MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD);
	else if (!strcmp(name, "gather"))
		MPI_Gather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
	else if (!strcmp(name, "scatter"))
		MPI_Scatter(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
	else if (!strcmp(name, "sendrecv"))
		MPI_Sendrecv(out, bytes, MPI_CHAR, (rank + 1) % size, DATA, in, bytes, MPI_CHAR, (rank + size - 1) % size, DATA,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else if (!strcmp(name, "exchange")) {
		int next = (rank + 1) % size, last = (rank + size - 1) % size;
		MPI_Request all[4];
		MPI_Irecv(in, bytes, MPI_CHAR, last, DATA, MPI_COMM_WORLD, &all[0]);
		MPI_Irecv(in + bytes, bytes, MPI_CHAR, next, DATA, MPI_COMM_WORLD, &all[1]);
		MPI_Isend(out, bytes, MPI_CHAR, next, DATA, MPI_COMM_WORLD, &all[2]);
		MPI_Isend(out, bytes, MPI_CHAR, last, DATA, MPI_COMM_WORLD, &all[3]);
		MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
	} else {
		fprintf(stderr, "no pattern %s\n", name);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
}

/* One step of a pattern; ranks that have no part in it do nothing. */
static void step(const char *name, long bytes)
{
	if (!strcmp(name, "pingpong")) {
		if (peer >= 0)
			round_trip(bytes);
	} else if (!strcmp(name, "rate") || !strcmp(name, "stream")) {
		if (peer >= 0)
			burst(bytes, window_of(name[0] == 's', bytes));
	} else
		collective(name, bytes);
}

/* How many steps fill the time, the same for all. A tenth of the time goes by before that is known: first contact, and the choice of
 * a way where there are several, are not what is measured. */
static long steps_for(double seconds, const char *name, long bytes)
{
	long count = TRIAL_COUNT, is_long_enough = 0;
	double taken = 0;
	while (!is_long_enough) {
		MPI_Barrier(MPI_COMM_WORLD);
		double begin = MPI_Wtime();
		for (long i = 0; i < count; i++)
			step(name, bytes);
		taken = MPI_Wtime() - begin;
		is_long_enough = taken >= seconds / 10 || count >= SAMPLE_COUNT_MAX;
		MPI_Bcast(&is_long_enough, 1, MPI_LONG, 0, MPI_COMM_WORLD);
		count = is_long_enough ? count : 2 * count;
	}
	count = taken > 0 ? (long)(count * seconds / taken) : SAMPLE_COUNT_MAX;
	count = count < 3 ? 3 : count > SAMPLE_COUNT_MAX ? SAMPLE_COUNT_MAX : count;
	MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	return count;
}

/* Time of a message from rank 0 to its peer at this rank, with work between post and wait. */
static double transfer(long bytes, long work)
{
	MPI_Request request;
	MPI_Sendrecv(out, 1, MPI_CHAR, peer, ANSWER, in, 1, MPI_CHAR, peer, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	double begin = MPI_Wtime();
	if (rank == 0)
		MPI_Isend(out, bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD, &request);
	else
		MPI_Irecv(in, bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD, &request);
	compute(work);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	return MPI_Wtime() - begin;
}

/* Both learn what rank 0 says, or what its peer does. */
static double agreed(double value, int is_mine)
{
	if (is_mine)
		MPI_Send(&value, 1, MPI_DOUBLE, peer, ANSWER, MPI_COMM_WORLD);
	else
		MPI_Recv(&value, 1, MPI_DOUBLE, peer, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return value;
}

enum { ROUNDS_MAX = 101 };

static double median(double *times, int count)
{
	qsort(times, count, sizeof times[0], by_value);
	return times[count / 2];
}

/* One side computes three times as long as the transfer takes, the other waits. What of the transfer's time is not added to that
 * of the computation was overlapped. Each is timed by turns with the others: a machine that is slow for a while is so for all. */
static double overlap_in_role(long bytes, double seconds, int is_mine)
{
	double alone[ROUNDS_MAX], computed[ROUNDS_MAX], together[ROUNDS_MAX];
	for (int i = 0; i < 5; i++)
		alone[i] = transfer(bytes, 0);
	double once = agreed(median(alone, 5), is_mine);
	int count = (int)(seconds / 8 / once);
	count = count < 9 ? 9 : count > ROUNDS_MAX ? ROUNDS_MAX : count;
	long work = 0;
	if (is_mine) {
		learn_to_compute();
		work = (long)(3e9 * once * rounds_per_ns);
	}
	for (int i = 0; i < count; i++) {
		alone[i] = transfer(bytes, 0);
		double begin = MPI_Wtime();
		compute(work);
		computed[i] = MPI_Wtime() - begin;
		together[i] = transfer(bytes, work);
	}
	once = median(alone, count);
	return agreed(100.0 * (once + median(computed, count) - median(together, count)) / once, is_mine);
}

/* The lesser of both roles: the sender computes, the receiver computes. */
static double overlap(long bytes, double seconds)
{
	if (peer < 0)
		return 0;
	double of_sender = overlap_in_role(bytes, seconds / 2, rank == 0);
	double of_receiver = overlap_in_role(bytes, seconds / 2, rank != 0);
	double share = of_sender < of_receiver ? of_sender : of_receiver;
	return share < 0 ? 0 : share > 100 ? 100 : share;
}

static double measure(const char *name, long bytes, double seconds)
{
	if (!strcmp(name, "overlap"))
		return overlap(bytes, seconds);
	long count = steps_for(seconds, name, bytes);
	double *samples = malloc(count * sizeof *samples), value;
	if (!samples)
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime(), last = begin;
	for (long i = 0; i < count; i++) {
		step(name, bytes);
		double now = MPI_Wtime();
		samples[i] = now - last;
		last = now;
	}
	double mean = (last - begin) / count, slowest;
	qsort(samples, count, sizeof *samples, by_value);
	value = samples[count / 2];
	free(samples);
	if (!strcmp(name, "pingpong"))
		return value * 5e8;
	if (!strcmp(name, "rate"))
		return window_of(0, bytes) / value;
	if (!strcmp(name, "stream"))
		return window_of(1, bytes) * (double)bytes / value;
	MPI_Allreduce(&mean, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest * 1e9;
}

int main(int argc, char **argv)
{
	long bytes_max = 1 << 20;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc < 4 || size < 2)
		MPI_Abort(MPI_COMM_WORLD, 2);
	if (strcmp(argv[2], "pin") == 0)
		keep_to_a_core();
	for (int i = 3; i < argc; i++) {
		char *colon = strchr(argv[i], ':');
		if (colon && atol(colon + 1) > bytes_max)
			bytes_max = atol(colon + 1);
	}
	if (rank == 0)
		peer = size / 2;
	else if (rank == size / 2)
		peer = 0;
	out = calloc(size, bytes_max);
	in = calloc(size < 2 ? 2 : size, bytes_max);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int i = 3; i < argc; i++) {
		char name[32] = "";
		long bytes = 0;
		if (sscanf(argv[i], "%31[a-z]:%ld", name, &bytes) != 2 || bytes < 0)
			MPI_Abort(MPI_COMM_WORLD, 2);
		double value = measure(name, bytes, atof(argv[1]));
		if (rank == 0)
			printf("row %s %ld %.3f\n", name, bytes, value);
		fflush(stdout);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Finalize();
	return 0;
}
