/* The self-test of `packhorse check`: two ranks exchange short and long messages, verify them, and say how long it took. Then
 * each prints the counters that its endpoint left on its own host, so that nobody has to fetch them from there. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHORT = 8, LONG = 1 << 20, WARM = 200, SHORT_ROUNDS = 2000, LONG_ROUNDS = 50 };

static int rank;

/* Half of a round trip, in microseconds. */
static double half_round_trip(char *out, char *in, int bytes, int rounds)
{
	double begin = MPI_Wtime();
	for (int i = 0; i < rounds; i++) {
		out[0] = out[bytes - 1] = (char)i;
		in[bytes - 1] = (char)~i;
		if (rank == 0)
			MPI_Send(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(in, bytes, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(out, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
		if (in[bytes - 1] != (char)i) {
			fprintf(stderr, "rank %d: a message of %d bytes arrived damaged\n", rank, bytes);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	}
	return (MPI_Wtime() - begin) * 1e6 / (2.0 * rounds);
}

static void print_counters(void)
{
	char name[4096], text[65536];
	const char *prefix = getenv("PACKHORSE_COUNTERS");
	FILE *file;
	size_t len;
	if (!prefix)
		return;
	snprintf(name, sizeof name, "%s.%ld", prefix, (long)getpid());
	file = fopen(name, "r");
	if (!file)
		return;
	len = fread(text, 1, sizeof text - 1, file);
	text[len] = 0;
	fclose(file);
	unlink(name);
	printf("counters %d %s\n", rank, text);
}

int main(int argc, char **argv)
{
	char host[MPI_MAX_PROCESSOR_NAME] = "?";
	int size, len;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Get_processor_name(host, &len);
	if (size != 2) {
		fprintf(stderr, "%d ranks instead of 2: mpirun and program are of different MPIs\n", size);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	char *out = calloc(1, LONG), *in = calloc(1, LONG);
	half_round_trip(out, in, SHORT, WARM);
	double brief = half_round_trip(out, in, SHORT, SHORT_ROUNDS);
	double extended = half_round_trip(out, in, LONG, LONG_ROUNDS);
	MPI_Finalize();
	printf("rank %d %s %.3f %.3f\n", rank, host, brief, extended);
	print_counters();
	return 0;
}
