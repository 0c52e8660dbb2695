/* Ping-pong, stream and rate over MPI, for `packhorse bench`: compiled with mpicc, started with mpirun -n 2.
 * Usage: bench pingpong|stream|rate BYTES SECONDS WINDOW. One line of figures on standard output. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA = 1, END = 2, SAMPLE_COUNT_MAX = 1 << 22 };

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void ping(char *out, char *in, int bytes, double seconds) {
    float *samples = malloc(SAMPLE_COUNT_MAX * sizeof *samples);
    double begin = MPI_Wtime(), last = begin, warm = begin + 0.1 * seconds, sum = 0;
    size_t count = 0;
    if (!samples) MPI_Abort(MPI_COMM_WORLD, 1);
    while (last < begin + seconds || count == 0) {
        MPI_Send(out, bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double now = MPI_Wtime();
        if (now >= warm && count < SAMPLE_COUNT_MAX) {
            samples[count] = (float)((now - last) * 5e8); /* half of it, in ns */
            sum += samples[count++];
        }
        last = now;
    }
    MPI_Send(out, 0, MPI_BYTE, 1, END, MPI_COMM_WORLD);
    qsort(samples, count, sizeof *samples, compare);
    printf("pingpong %.0f %.0f %.0f %zu\n", samples[count / 2], samples[count * 99 / 100], sum / count, count);
}

static void pong(char *out, char *in, int bytes) {
    for (;;) {
        MPI_Status status;
        MPI_Recv(in, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == END) return;
        MPI_Send(out, bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
}

static void pour(char *out, int bytes, double seconds, int window) {
    MPI_Request *requests = malloc(window * sizeof *requests);
    double end = MPI_Wtime() + 1.1 * seconds;
    if (!requests) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < window; i++) requests[i] = MPI_REQUEST_NULL;
    for (unsigned long i = 0; i % 64 != 0 || MPI_Wtime() < end; i++) {
        MPI_Wait(&requests[i % window], MPI_STATUS_IGNORE);
        MPI_Isend(out, bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &requests[i % window]);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    MPI_Send(out, 0, MPI_BYTE, 1, END, MPI_COMM_WORLD);
}

static void drain(char *in, int bytes, double seconds, int window) {
    MPI_Request *requests = malloc(window * sizeof *requests);
    double begin = 0, start = 0, stop = 0;
    unsigned long counted = 0;
    if (!requests) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < window; i++)
        MPI_Irecv(in, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
    for (unsigned long i = 0;; i++) {
        MPI_Status status;
        MPI_Wait(&requests[i % window], &status);
        if (status.MPI_TAG == END) {
            for (int k = 1; k < window; k++) MPI_Cancel(&requests[(i + k) % window]);
            requests[i % window] = MPI_REQUEST_NULL;
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            break;
        }
        MPI_Irecv(in, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i % window]);
        if (stop == 0 && start != 0) counted++;
        if (i % 64 == 0) {
            double now = MPI_Wtime();
            if (begin == 0) begin = now;
            if (start == 0 && now - begin >= 0.1 * seconds) start = now;
            if (start != 0 && stop == 0 && now - begin >= seconds) stop = now;
        }
    }
    if (stop == 0) stop = MPI_Wtime();
    printf("flow %lu %.0f\n", counted, (stop - start) * 1e9);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 5 || size != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    int bytes = atoi(argv[2]), window = atoi(argv[4]);
    double seconds = atof(argv[3]);
    char *out = calloc(1, bytes + 1), *in = calloc(1, bytes + 1);
    if (!out || !in || window < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    memset(out, 1, bytes + 1); /* untouched, it would be one page of zeros again and again, which is read from the nearest cache */
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(argv[1], "pingpong") == 0) {
        if (rank == 0) ping(out, in, bytes, seconds);
        else pong(out, in, bytes);
    } else {
        if (rank == 0) pour(out, bytes, seconds, window);
        else drain(in, bytes, seconds, window);
    }
    MPI_Finalize();
    return 0;
}
