/* What our programs under MPI have in common; this text stands before each of theirs. */
#define _GNU_SOURCE
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static double rounds_per_ns;
static volatile double sink; /* so that nothing is left out */

static void compute(long rounds)
{
	double x = 1.0;
	for (long i = 0; i < rounds; i++)
		x = x * 1.0000001 + 1e-9;
	sink = x;
}

/* Rounds of computation in a nanosecond, undisturbed. */
static void learn_to_compute(void)
{
	const long rounds = 1000000;
	double least = 0;
	for (int i = 0; i < 9; i++) {
		double begin = MPI_Wtime();
		compute(rounds);
		double taken = MPI_Wtime() - begin;
		least = i == 0 || taken < least ? taken : least;
	}
	rounds_per_ns = rounds / (least * 1e9);
}

/* Only the calling thread: others of its process go where there is room. */
static void keep_to_a_core(void)
{
	cpu_set_t all, one;
	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) == 0)
		MPI_Abort(MPI_COMM_WORLD, 3);
	int left = rank * CPU_COUNT(&all) / size, core = 0; /* those that talk have different ones */
	while (!CPU_ISSET(core, &all) || left-- > 0)
		core++;
	CPU_SET(core, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0)
		MPI_Abort(MPI_COMM_WORLD, 3);
}
