/* rmpp. The loop of Figure 9 of the RMPP paper. */

enum { DATA = 1, UNDER_WAY = 4, ECHO_ROOM = 2 * UNDER_WAY, TRIAL_COUNT = 2 * UNDER_WAY };
/* There are many lengths of work: each has only this share of the time. */
static const double RMPP_SHARE = 0.25, TRIAL_SHARE = 0.05;

static struct {
	int peer;
	long bytes;
	char *out[UNDER_WAY], *back[UNDER_WAY], *echo[ECHO_ROOM];
} rmpp;

/* The number of a message stands at both its ends. */
static void put_number(char *message, long number)
{
	memcpy(message, &number, sizeof number);
	memcpy(message + rmpp.bytes - sizeof number, &number, sizeof number);
}

static void check_number(const char *message, long number)
{
	long ends[2];
	memcpy(&ends[0], message, sizeof number);
	memcpy(&ends[1], message + rmpp.bytes - sizeof number, sizeof number);
	if (ends[0] != number || ends[1] != number)
		wrong("rmpp, number of a message", ends[0] != number ? ends[0] - number : ends[1] - number);
}

static void rmpp_post(long number, MPI_Request *send, MPI_Request *receive)
{
	int slot = number % UNDER_WAY;
	put_number(rmpp.out[slot], number);
	MPI_Isend(rmpp.out[slot], rmpp.bytes, MPI_CHAR, rmpp.peer, DATA, MPI_COMM_WORLD, &send[slot]);
	MPI_Irecv(rmpp.back[slot], rmpp.bytes, MPI_CHAR, rmpp.peer, DATA, MPI_COMM_WORLD, &receive[slot]);
}

/* So many messages there and back, with work until each is back: pieces of work that were done. */
static long rmpp_work(long count, long rounds)
{
	MPI_Request send[UNDER_WAY], receive[UNDER_WAY];
	long pieces = 0;
	for (long n = 0; n < UNDER_WAY; n++)
		rmpp_post(n, send, receive);
	for (long n = 0; n < count; n++) {
		int slot = n % UNDER_WAY, is_there = 0;
		while (!is_there) {
			compute(rounds);
			pieces++;
			MPI_Test(&receive[slot], &is_there, MPI_STATUS_IGNORE);
		}
		MPI_Wait(&send[slot], MPI_STATUS_IGNORE);
		check_number(rmpp.back[slot], n);
		if (n + UNDER_WAY < count)
			rmpp_post(n + UNDER_WAY, send, receive);
	}
	return pieces;
}

/* Receives are posted for all that can come, while as many as that may be on their way back. */
static void rmpp_echo(long count)
{
	MPI_Request receive[ECHO_ROOM], send[ECHO_ROOM];
	for (long n = 0; n < ECHO_ROOM; n++)
		if (n < count)
			MPI_Irecv(rmpp.echo[n], rmpp.bytes, MPI_CHAR, rmpp.peer, DATA, MPI_COMM_WORLD, &receive[n]);
	for (long n = 0; n < count; n++) {
		int slot = n % ECHO_ROOM, old = (n + UNDER_WAY) % ECHO_ROOM;
		MPI_Wait(&receive[slot], MPI_STATUS_IGNORE);
		MPI_Isend(rmpp.echo[slot], rmpp.bytes, MPI_CHAR, rmpp.peer, DATA, MPI_COMM_WORLD, &send[slot]);
		if (n < UNDER_WAY)
			continue;
		MPI_Wait(&send[old], MPI_STATUS_IGNORE);
		if (n + UNDER_WAY < count)
			MPI_Irecv(rmpp.echo[old], rmpp.bytes, MPI_CHAR, rmpp.peer, DATA, MPI_COMM_WORLD, &receive[old]);
	}
	for (long n = count - UNDER_WAY; n < count; n++)
		MPI_Wait(&send[n % ECHO_ROOM], MPI_STATUS_IGNORE);
}

/* Seconds of the slowest; `effective` is what came back in a second times the share of the processor left for the work, a mean of all. */
static double rmpp_run(long count, long rounds, double *effective)
{
	int is_worker = rank < size / 2;
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime(), taken, own = 0, slowest;
	long pieces = 0;
	if (is_worker)
		pieces = rmpp_work(count, rounds);
	else
		rmpp_echo(count);
	taken = MPI_Wtime() - begin;
	if (is_worker)
		own = pieces * rounds / (taken * 1e9 * rounds_per_ns) * (count * rmpp.bytes / taken);
	MPI_Allreduce(&taken, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&own, effective, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	*effective /= size / 2;
	return slowest;
}

static double measure_rmpp(double work_ns, long bytes, double seconds)
{
	long rounds = (long)(work_ns * rounds_per_ns) + 1, count = TRIAL_COUNT;
	double effective, taken;
	MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	rmpp.bytes = bytes;
	rmpp.peer = (rank + size / 2) % size;
	char **all[] = {rmpp.out, rmpp.back, rmpp.echo};
	const int counts[] = {UNDER_WAY, UNDER_WAY, ECHO_ROOM};
	for (int k = 0; k < 3; k++)
		for (int i = 0; i < counts[k]; i++) {
			all[k][i] = room(bytes);
			memset(all[k][i], 'a' + (k == 0), bytes);
		}
	seconds *= RMPP_SHARE;
	while ((taken = rmpp_run(count, rounds, &effective)) < TRIAL_SHARE * seconds)
		count *= 2;
	if (seconds / taken > 1)
		count = (long)(count * seconds / taken);
	rmpp_run(count, rounds, &effective);
	for (int i = 0; i < UNDER_WAY; i++)
		if (rank < size / 2 && memcmp(rmpp.out[i], rmpp.back[i], bytes) != 0)
			wrong("rmpp, a message", i);
	for (int k = 0; k < 3; k++)
		for (int i = 0; i < counts[k]; i++)
			free(all[k][i]);
	return effective;
}
