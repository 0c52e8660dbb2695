/* What `packhorse compare --mpi --polling` measures: programs that look for messages between two pieces of work.
 * Usage: polling SECONDS pin|free CASE... with cases LOOK/WORK/EVERY:BYTES
 *   LOOK    test: MPI_Test on a posted receive; probe: MPI_Iprobe, and a receive when there is something
 *   WORK    ns of computation before each look
 *   EVERY   a message to the partner every so many steps; 0: none
 * Ranks talk in pairs, number r of the first half with number r of the second, both doing the same. Rank 0 prints a line
 * "row CASE BYTES VALUE": ns a step, of the slowest rank. Every byte that arrives is compared. */

enum { DATA = 1, OUT_COUNT = 4, TRIAL_STEPS = 64, NUMBER_LEN = sizeof(long) };
static const double TRIAL_SECONDS = 0.005;
/* Where nothing ever comes, a transport may take the program for one that waits, after a while: a shorter cell would not show it. */
static const double QUIET_SECONDS = 1.5;

struct pattern {
	int is_probe;
	double work_ns;
	long every, bytes;
};

static int peer;
/* What messages are sent from, and where they arrive. The number of the message stands at both ends of it. */
static char *out[OUT_COUNT], *in, *expected;
static MPI_Request sends[OUT_COUNT];
static long sent_count, received_count, message_count; /* message_count: to be received in all */

static void mark(char *message, long bytes, long number)
{
	memcpy(message, &number, NUMBER_LEN);
	memcpy(message + bytes - NUMBER_LEN, &number, NUMBER_LEN);
}

static void send_one(long bytes)
{
	int slot = sent_count % OUT_COUNT;
	MPI_Wait(&sends[slot], MPI_STATUS_IGNORE);
	mark(out[slot], bytes, sent_count);
	MPI_Isend(out[slot], bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD, &sends[slot]);
	sent_count++;
}

static void on_received(long bytes)
{
	mark(expected, bytes, received_count);
	if (memcmp(in, expected, bytes) != 0) {
		fprintf(stderr, "rank %d: message %ld is not what was sent\n", rank, received_count);
		MPI_Abort(MPI_COMM_WORLD, 4);
	}
	received_count++;
}

static void post(long bytes, MPI_Request *request)
{
	MPI_Irecv(in, bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD, request);
}

/* One look; takes a message if there is one. */
static void look(const struct pattern *p, MPI_Request *request)
{
	int is_there = 0;
	if (p->is_probe) {
		MPI_Iprobe(peer, DATA, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
		if (is_there)
			MPI_Recv(in, p->bytes, MPI_CHAR, peer, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else
		MPI_Test(request, &is_there, MPI_STATUS_IGNORE);
	if (!is_there)
		return;
	on_received(p->bytes);
	if (!p->is_probe && received_count < message_count)
		post(p->bytes, request);
}

/* Seconds of so many steps, of the slowest rank. One more message, behind the steps, ends the last receive. */
static double run(const struct pattern *p, long step_count)
{
	long rounds = (long)(p->work_ns * rounds_per_ns);
	MPI_Request request = MPI_REQUEST_NULL;
	sent_count = received_count = 0;
	message_count = p->every ? step_count / p->every + 1 : 1;
	if (!p->is_probe)
		post(p->bytes, &request);
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime(), taken, slowest;
	for (long i = 1; i <= step_count; i++) {
		compute(rounds);
		look(p, &request);
		if (p->every && i % p->every == 0)
			send_one(p->bytes);
	}
	taken = MPI_Wtime() - begin;
	MPI_Barrier(MPI_COMM_WORLD); /* the last one must not come while its receiver still measures */
	send_one(p->bytes);
	while (received_count < message_count)
		look(p, &request);
	MPI_Waitall(OUT_COUNT, sends, MPI_STATUSES_IGNORE);
	MPI_Allreduce(&taken, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

/* ns a step. */
static double measure(const struct pattern *p, double seconds)
{
	long count = TRIAL_STEPS;
	double taken;
	while ((taken = run(p, count)) < TRIAL_SECONDS)
		count *= 2;
	if (!p->every && seconds < QUIET_SECONDS)
		seconds = QUIET_SECONDS;
	count = (long)(seconds / (taken / count));
	if (count < p->every)
		count = p->every; /* a cell with messages has one at least */
	if (count < TRIAL_STEPS)
		count = TRIAL_STEPS;
	return run(p, count) / count * 1e9;
}

static char *message_of(long bytes)
{
	char *message = malloc(bytes);
	if (!message)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (long i = 0; i < bytes; i++)
		message[i] = (char)(i * 31 + 7);
	return message;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc < 4 || size < 2 || size % 2 != 0)
		MPI_Abort(MPI_COMM_WORLD, 2);
	peer = (rank + size / 2) % size;
	if (strcmp(argv[2], "pin") == 0)
		keep_to_a_core();
	learn_to_compute();
	for (int i = 3; i < argc; i++) {
		char kind[8] = "";
		struct pattern p;
		if (sscanf(argv[i], "%7[a-z]/%lf/%ld:%ld", kind, &p.work_ns, &p.every, &p.bytes) != 4 ||
		    p.bytes < 2 * NUMBER_LEN)
			MPI_Abort(MPI_COMM_WORLD, 2);
		p.is_probe = strcmp(kind, "probe") == 0;
		in = message_of(p.bytes);
		expected = message_of(p.bytes);
		for (int slot = 0; slot < OUT_COUNT; slot++) {
			out[slot] = message_of(p.bytes);
			sends[slot] = MPI_REQUEST_NULL;
		}
		double value = measure(&p, atof(argv[1]));
		if (rank == 0)
			printf("row %.*s %ld %.3f\n", (int)strcspn(argv[i], ":"), argv[i], p.bytes, value);
		fflush(stdout);
		for (int slot = 0; slot < OUT_COUNT; slot++)
			free(out[slot]);
		free(in);
		free(expected);
	}
	MPI_Finalize();
	return 0;
}
