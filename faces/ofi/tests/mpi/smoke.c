/* What every MPI program does, in small: every size class, any source, probes, synchronous sends, cancellation, collectives.
 * Every byte is verified. Each rank prints how many bytes it received from others point to point; who runs this compares
 * that with the counters of the transport. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static long received;

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static char byte_of(int from, long at)
{
	return (char)(from * 31 + at * 7 + at / 251);
}

static void fill(char *buf, long len, int from)
{
	for (long i = 0; i < len; i++)
		buf[i] = byte_of(from, i);
}

static void verify(const char *buf, long len, int from)
{
	for (long i = 0; i < len; i++)
		must(buf[i] == byte_of(from, i), "a byte is wrong");
	if (from != rank)
		received += len;
}

/* Everybody to the next, several times, blocking and not. */
static void around(long len)
{
	char *out = malloc(len + 1), *in = malloc(len + 1);
	int next = (rank + 1) % size, last = (rank + size - 1) % size;
	fill(out, len, rank);
	for (int i = 0; i < 5; i++) {
		memset(in, 0, len);
		MPI_Sendrecv(out, len, MPI_CHAR, next, 1, in, len, MPI_CHAR, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		verify(in, len, last);
	}
	MPI_Request both[2];
	memset(in, 0, len);
	MPI_Irecv(in, len, MPI_CHAR, last, 2, MPI_COMM_WORLD, &both[0]);
	MPI_Issend(out, len, MPI_CHAR, next, 2, MPI_COMM_WORLD, &both[1]);
	MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
	verify(in, len, last);
	free(out);
	free(in);
}

/* Everybody to rank 0, which asks who sent and how much. */
static void to_one(int tag)
{
	long len = 1000 + rank;
	char *buf = malloc(100000);
	if (rank > 0) {
		fill(buf, len, rank);
		MPI_Send(buf, len, MPI_CHAR, 0, tag, MPI_COMM_WORLD);
	}
	for (int i = 1; rank == 0 && i < size; i++) {
		MPI_Status status;
		MPI_Message message;
		int count;
#ifdef WITHOUT_MPROBE /* Open MPI 1.8 over MX */
		message = MPI_MESSAGE_NULL;
		if (1) {
#else
		if (i % 2) {
#endif
			MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
			MPI_Get_count(&status, MPI_CHAR, &count);
			MPI_Recv(buf, count, MPI_CHAR, status.MPI_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Mprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &message, &status);
			MPI_Get_count(&status, MPI_CHAR, &count);
			MPI_Mrecv(buf, count, MPI_CHAR, &message, MPI_STATUS_IGNORE);
		}
		must(count == 1000 + status.MPI_SOURCE, "a length is wrong");
		verify(buf, count, status.MPI_SOURCE);
	}
	free(buf);
}

/* Many small ones that nobody expects, then all received. */
static void unexpected(int count)
{
	int next = (rank + 1) % size, last = (rank + size - 1) % size;
	for (int i = 0; i < count; i++)
		MPI_Send(&i, 1, MPI_INT, next, 100 + i % 10, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int tag = 9; tag >= 0; tag--)
		for (int i = tag; i < count; i += 10) {
			int got = -1;
			MPI_Recv(&got, 1, MPI_INT, last, 100 + tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			must(got == i, "messages of one tag came in another order");
		}
	received += size > 1 ? count * (long)sizeof(int) : 0;
}

static void cancelled(void)
{
	int nothing, is_cancelled;
	MPI_Request request;
	MPI_Status status;
	MPI_Irecv(&nothing, 1, MPI_INT, MPI_ANY_SOURCE, 9999, MPI_COMM_WORLD, &request);
	MPI_Cancel(&request);
	MPI_Wait(&request, &status);
	MPI_Test_cancelled(&status, &is_cancelled);
	must(is_cancelled, "a receive was not cancelled");
}

static void collectives(void)
{
	for (int len = 1; len <= 20000; len *= 10) {
		int *in = malloc(sizeof(int) * len * size), *out = malloc(sizeof(int) * len * size);
		for (int i = 0; i < len * size; i++)
			in[i] = rank + i;
		MPI_Allreduce(in, out, len, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < len; i++)
			must(out[i] == size * (size - 1) / 2 + size * i, "a sum is wrong");
		MPI_Alltoall(in, len, MPI_INT, out, len, MPI_INT, MPI_COMM_WORLD);
		for (int from = 0; from < size; from++)
			for (int i = 0; i < len; i++)
				must(out[from * len + i] == from + rank * len + i, "an all-to-all is wrong");
		MPI_Bcast(in, len, MPI_INT, size - 1, MPI_COMM_WORLD);
		must(in[len - 1] == size - 1 + len - 1, "a broadcast is wrong");
		free(in);
		free(out);
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	long lengths[] = {0, 1, 100, 1000, 5000, 16384, 16385, 40000, 70000, 1000000, 5000001};
	for (int i = 0; i < (int)(sizeof lengths / sizeof lengths[0]); i++)
		around(lengths[i]);
	for (int i = 0; i < 20; i++)
		to_one(50 + i);
	unexpected(1000);
	cancelled();
	collectives();
	MPI_Barrier(MPI_COMM_WORLD);
	printf("rank %d of %d received %ld\n", rank, size, received);
	MPI_Finalize();
	return 0;
}
