/* The patterns of offload over MPI, for `packhorse bench`: compiled with mpicc, started with mpirun -n 2.
 * Usage: bench availability BYTES SECONDS SLICE DEPTH
 *        bench doublebuf    BYTES SECONDS IS_CONSUMER_BOUND RATE HAS_CTS
 *        bench overlap      BYTES SECONDS WHO THREADS          (WHO: 0 sender, 1 receiver, 2 both)
 *        bench posts        BYTES SECONDS LOAD_PERCENT
 * Rank 0 is the active side. What each pattern does is said in crates/bench/src/offload; this is the same in C, with MPI's own posts
 * (MPI_Isend, MPI_Irecv), polls (MPI_Test) and waits. One line of JSON on standard output. */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 1, TABLE_LEN = 1024, GO_COUNT = 20, GO_UNITS = 500000, BATCH = 5, ROUND_COUNT_MAX = 32, ROUND_BITS = 8 };
enum { END = 0, AGAIN = 1, DEPTH_MAX = 64, SAMPLE_COUNT_MAX = 1 << 16 };
static const uint64_t LAST = UINT64_MAX;

static int rank, other, bytes;
static double seconds;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *room(size_t len) {
    void *memory = calloc(1, len);
    if (!memory) MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

/* ---- Work: the same dependent chain as in work.rs. */

struct work {
    uint64_t state, table[TABLE_LEN];
    double ns_per_unit;
};
static struct work work;

static __attribute__((noinline)) void units(struct work *w, uint64_t count) {
    uint64_t state = w->state;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t loaded = w->table[(state >> 54) % TABLE_LEN];
        state = state * 0x5851f42d4c957f2dULL + (loaded | 1);
    }
    w->state = state;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, count, sizeof *values, by_value);
    return count ? values[count / 2] : 0;
}

static void calibrate(void) {
    double times[GO_COUNT];
    work.state = 1;
    for (uint64_t i = 0; i < TABLE_LEN; i++) work.table[i] = i * 0x9e3779b9ULL;
    units(&work, GO_UNITS);
    for (int i = 0; i < GO_COUNT; i++) {
        double start = now_ns();
        units(&work, GO_UNITS);
        times[i] = now_ns() - start;
    }
    qsort(times, GO_COUNT, sizeof *times, by_value);
    work.ns_per_unit = times[GO_COUNT / 4] / GO_UNITS;
}

static uint64_t units_in(double ns) {
    return ns > 0 ? (uint64_t)(ns / work.ns_per_unit + 0.5) : 0;
}

struct thread_job {
    struct work work;
    uint64_t count;
};

static void *run_thread(void *argument) {
    struct thread_job *job = argument;
    units(&job->work, job->count);
    return NULL;
}

static void units_on(int thread_count, uint64_t count) {
    pthread_t threads[64];
    struct thread_job *jobs = room(sizeof *jobs * 64);
    if (thread_count > 64) thread_count = 64;
    for (int i = 1; i < thread_count; i++) {
        jobs[i].work = work;
        jobs[i].count = count;
        pthread_create(&threads[i], NULL, run_thread, &jobs[i]);
    }
    units(&work, count);
    for (int i = 1; i < thread_count; i++) pthread_join(threads[i], NULL);
    free(jobs);
}

/* ---- Words between the two sides, and turns in which the other one sleeps. */

static void tell(uint64_t word) { MPI_Send(&word, 8, MPI_BYTE, other, TAG, MPI_COMM_WORLD); }

static uint64_t hear(void) {
    uint64_t word;
    MPI_Recv(&word, 8, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return word;
}

static void hear_asleep(void) {
    uint64_t word;
    int is_there = 0;
    MPI_Request request;
    MPI_Irecv(&word, 8, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &request);
    while (!is_there) {
        MPI_Test(&request, &is_there, MPI_STATUS_IGNORE);
        if (!is_there) usleep(500);
    }
}

static void in_turn(void (*action)(void)) {
    if (rank == 1) hear_asleep();
    action();
    tell(AGAIN);
    if (rank == 0) hear_asleep();
}

/* ---- What is reported. */

static double cpu[2][3]; /* begin and end: user, system, softirq */

static void read_cpu(double *out) {
    unsigned long long t[7] = {0};
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return;
    if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6) == 7) {
        out[0] = (t[0] + t[1]) / 100.0;
        out[1] = (t[2] + t[5]) / 100.0;
        out[2] = t[6] / 100.0;
    }
    fclose(file);
}

static void report(unsigned long messages, double elapsed_ns, const char *figures) {
    printf("{\"messages\":%lu,\"bytes\":%.0f,\"elapsed_ns\":%.0f,\"cpu\":{\"user\":%.2f,\"system\":%.2f,"
           "\"softirq\":%.2f},\"figures\":{%s}}\n",
           messages, (double)messages * bytes, elapsed_ns, cpu[1][0] - cpu[0][0], cpu[1][1] - cpu[0][1],
           cpu[1][2] - cpu[0][2], figures);
}

static double warm_ns(void) { return 1e9 * (0.1 * seconds < 0.3 ? 0.1 * seconds : 0.3); }

/* ---- Availability: post, work in slices, poll. */

struct pairs {
    int depth;
    char *out[DEPTH_MAX], *back[DEPTH_MAX];
    MPI_Request sends[DEPTH_MAX], receives[DEPTH_MAX];
    unsigned long received;
};

static void post_pair(struct pairs *p, int i) {
    MPI_Irecv(p->back[i], bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &p->receives[i]);
    MPI_Isend(p->out[i], bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &p->sends[i]);
}

/* Looks at the oldest; whatever has come is posted again. */
static void poll_pairs(struct pairs *p) {
    for (int looked = 0; looked < p->depth; looked++) {
        int i = p->received % p->depth, is_received = 0, is_sent = 0;
        MPI_Test(&p->receives[i], &is_received, MPI_STATUS_IGNORE);
        if (!is_received) return;
        MPI_Test(&p->sends[i], &is_sent, MPI_STATUS_IGNORE);
        if (!is_sent) return; /* a finished receive stays finished */
        p->received++;
        post_pair(p, i);
    }
}

static uint64_t work_for(double time_ns, uint64_t slice, struct pairs *p, double *elapsed_ns) {
    double start = now_ns();
    uint64_t done = 0, since_look = 0;
    for (;;) {
        poll_pairs(p);
        units(&work, slice);
        done += slice;
        since_look += slice + 50;
        if (since_look >= 20000) {
            since_look = 0;
            *elapsed_ns = now_ns() - start;
            if (*elapsed_ns >= time_ns) return done;
        }
    }
}

static void availability(uint64_t slice, int depth) {
    if (rank == 1) { /* answers; an END in the first byte is the last */
        char *in = room(bytes * (size_t)depth), *back = room(bytes * (size_t)depth);
        MPI_Request receives[DEPTH_MAX], sends[DEPTH_MAX];
        for (int i = 0; i < depth; i++) {
            sends[i] = MPI_REQUEST_NULL;
            MPI_Irecv(in + (size_t)bytes * i, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &receives[i]);
        }
        for (unsigned long n = 0;; n++) {
            int i = n % depth;
            MPI_Wait(&receives[i], MPI_STATUS_IGNORE);
            if (in[(size_t)bytes * i] == END) {
                for (int k = 1; k < depth; k++) MPI_Cancel(&receives[(n + k) % depth]);
                MPI_Waitall(depth, receives, MPI_STATUSES_IGNORE);
                MPI_Waitall(depth, sends, MPI_STATUSES_IGNORE);
                return;
            }
            MPI_Wait(&sends[i], MPI_STATUS_IGNORE);
            MPI_Isend(back + (size_t)bytes * i, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &sends[i]);
            MPI_Irecv(in + (size_t)bytes * i, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &receives[i]);
        }
    }
    struct pairs p = {.depth = depth};
    double elapsed_ns;
    for (int i = 0; i < depth; i++) {
        p.out[i] = room(bytes);
        p.back[i] = room(bytes);
        memset(p.out[i], AGAIN, bytes);
        post_pair(&p, i);
    }
    work_for(warm_ns(), slice, &p, &elapsed_ns);
    unsigned long before = p.received;
    read_cpu(cpu[0]);
    uint64_t done = work_for(seconds * 1e9 - warm_ns(), slice, &p, &elapsed_ns);
    read_cpu(cpu[1]);
    unsigned long messages = p.received - before;
    MPI_Waitall(depth, p.receives, MPI_STATUSES_IGNORE);
    MPI_Waitall(depth, p.sends, MPI_STATUSES_IGNORE);
    p.out[0][0] = END;
    MPI_Send(p.out[0], bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
    char figures[200];
    snprintf(figures, sizeof figures, "\"availability\":%.6f,\"slice_ns\":%.3f",
             done * work.ns_per_unit / elapsed_ns, slice * work.ns_per_unit);
    report(messages, elapsed_ns, figures);
}

/* ---- Double buffer. */

static double wanted_rate, alone_rate;
static uint64_t handling_units;

static __attribute__((noinline)) void fill(uint64_t *words, size_t count) {
    uint64_t value = 1;
    for (size_t i = 0; i < count; i++) words[i] = value = value * 0x5851f42d4c957f2dULL + 1;
}

static volatile uint64_t sink;

static double handle(uint64_t *words) {
    double start = now_ns();
    size_t count = bytes / 8;
    if (rank == 0) {
        fill(words, count);
    } else {
        uint64_t sum = 0;
        for (size_t i = 0; i < count; i++) sum += words[i];
        sink = sum;
    }
    units(&work, handling_units);
    return now_ns() - start;
}

static void calibrate_handling(void) {
    uint64_t *buffers[2] = {room(bytes + 8), room(bytes + 8)};
    double passes[11], start;
    long count = 0;
    calibrate();
    for (int i = 0; i < 11; i++) passes[i] = handle(buffers[i % 2]);
    handling_units = units_in(bytes * 1e9 / wanted_rate - median(passes, 11));
    start = now_ns();
    while (now_ns() - start <= 20e6 || count < 4) handle(buffers[count++ % 2]);
    alone_rate = (double)count * bytes * 1e9 / (now_ns() - start);
    free(buffers[0]);
    free(buffers[1]);
}

static void produce(int has_cts) {
    uint64_t *buffers[2] = {room(bytes + 8), room(bytes + 8)};
    MPI_Request sends[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    double busy_ns = 0, end = now_ns() + seconds * 1e9 + warm_ns();
    for (uint64_t n = 0;; n++) {
        MPI_Wait(&sends[n % 2], MPI_STATUS_IGNORE);
        busy_ns += handle(buffers[n % 2]);
        int is_last = now_ns() >= end;
        buffers[n % 2][0] = is_last ? LAST : n;
        if (has_cts) hear();
        MPI_Isend(buffers[n % 2], bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &sends[n % 2]);
        if (is_last) {
            double rates[2] = {alone_rate, (n + 1) * (double)bytes * 1e9 / busy_ns};
            MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
            MPI_Send(rates, 2, MPI_DOUBLE, other, TAG + 1, MPI_COMM_WORLD);
            return;
        }
    }
}

static void consume(int has_cts) {
    uint64_t *buffers[2] = {room(bytes + 8), room(bytes + 8)}, word = AGAIN;
    MPI_Request receives[2], said = MPI_REQUEST_NULL;
    double begin = now_ns(), start = 0, elapsed_ns = 0, busy_ns = 0, theirs[2];
    unsigned long messages = 0;
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(buffers[i], bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &receives[i]);
        if (has_cts) tell(word);
    }
    for (uint64_t n = 0;; n++) {
        MPI_Wait(&receives[n % 2], MPI_STATUS_IGNORE);
        if (buffers[n % 2][0] == LAST) break;
        if (buffers[n % 2][0] != n) MPI_Abort(MPI_COMM_WORLD, 3);
        double ns = handle(buffers[n % 2]), now = now_ns();
        MPI_Irecv(buffers[n % 2], bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &receives[n % 2]);
        if (has_cts) {
            MPI_Wait(&said, MPI_STATUS_IGNORE);
            MPI_Isend(&word, 8, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &said);
        }
        if (start == 0) {
            if (now - begin >= warm_ns()) {
                start = now;
                read_cpu(cpu[0]);
            }
        } else if (elapsed_ns == 0) {
            messages++;
            busy_ns += ns;
            if (now - begin >= seconds * 1e9) {
                elapsed_ns = now - start;
                read_cpu(cpu[1]);
            }
        }
    }
    if (elapsed_ns == 0 && messages > 0) { /* the producer began long before this side */
        elapsed_ns = now_ns() - start;
        read_cpu(cpu[1]);
    }
    if (messages == 0) MPI_Abort(MPI_COMM_WORLD, 4);
    MPI_Recv(theirs, 2, MPI_DOUBLE, other, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) {
        if (receives[i] == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&receives[i]);
        MPI_Wait(&receives[i], MPI_STATUS_IGNORE);
    }
    MPI_Wait(&said, MPI_STATUS_IGNORE);
    char figures[400];
    snprintf(figures, sizeof figures,
             "\"producer_alone_bytes_per_s\":%.0f,\"producer_bytes_per_s\":%.0f,"
             "\"consumer_alone_bytes_per_s\":%.0f,\"consumer_bytes_per_s\":%.0f",
             theirs[0], theirs[1], alone_rate, messages * (double)bytes * 1e9 / busy_ns);
    report(messages, elapsed_ns, figures);
}

static void doublebuf(int is_consumer_bound, double rate, int has_cts) {
    wanted_rate = (rank == 1) == is_consumer_bound ? rate : 3 * rate;
    in_turn(calibrate_handling);
    if (rank == 0) produce(has_cts);
    else consume(has_cts);
}

/* ---- Overlap: post, compute, wait. */

static int who, thread_count;
static char *out, *back;
static int out_len, back_len;

static double transfer(uint64_t count) {
    MPI_Request requests[2];
    tell(AGAIN + count);
    hear();
    double start = now_ns();
    MPI_Irecv(back, back_len, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, out_len, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[1]);
    if (count) units_on(thread_count, count);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    return now_ns() - start;
}

static void attend_transfers(void) {
    for (;;) {
        MPI_Request requests[2];
        uint64_t word = hear();
        if (word == END) return;
        MPI_Irecv(back, back_len, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[0]);
        tell(AGAIN);
        if (who == 2) {
            MPI_Isend(out, out_len, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[1]);
            units_on(thread_count, word - AGAIN);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        } else {
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            MPI_Send(out, out_len, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
        }
    }
}

static void overlap(void) {
    int sends_data = who == 2 || (who == 0) == (rank == 0), takes_data = who == 2 || !sends_data;
    out_len = sends_data ? bytes : 8;
    back_len = takes_data ? bytes : 8;
    out = room(out_len);
    back = room(back_len);
    if (rank == 1) {
        attend_transfers();
        return;
    }
    double trials[5], *times[3], ns;
    int count = 0;
    for (int i = 0; i < 3; i++) times[i] = room(SAMPLE_COUNT_MAX * sizeof(double));
    for (int i = 0; i < 2; i++) transfer(0);
    for (int i = 0; i < 5; i++) trials[i] = transfer(0);
    ns = who == 2 ? 20e3 + bytes / 3.0 : median(trials, 5);
    uint64_t n = units_in(3 * ns);
    if (n == 0) n = 1;
    double start = now_ns();
    read_cpu(cpu[0]);
    while ((now_ns() - start < seconds * 1e9 || count < 3) && count < SAMPLE_COUNT_MAX) {
        times[0][count] = transfer(0);
        double begin = now_ns();
        units_on(thread_count, n);
        times[1][count] = now_ns() - begin;
        times[2][count++] = transfer(n);
    }
    read_cpu(cpu[1]);
    tell(END);
    double comm = median(times[0], count), comp = median(times[1], count), total = median(times[2], count);
    char figures[300], with[60] = "";
    if (who != 2) snprintf(with, sizeof with, ",\"overlap\":%.6f", (comm + comp - total) / comm);
    snprintf(figures, sizeof figures, "\"comm_ns\":%.0f,\"comp_ns\":%.0f,\"total_ns\":%.0f%s", comm, comp, total, with);
    report(2 * count, now_ns() - start, figures);
}

/* ---- Posts: batches of five. */

struct spent {
    double recv_ns, send_ns, work_ns, wait_ns;
    long rounds;
};

/* As many rounds as the low bits of the word say, each with as many units of work as the others. */
static void rounds(uint64_t word, struct spent *spent) {
    static char *outs, *backs;
    MPI_Request requests[2 * BATCH];
    if (!outs) {
        outs = room((size_t)bytes * BATCH);
        backs = room((size_t)bytes * BATCH);
    }
    for (uint64_t round = 0; round < word % (1 << ROUND_BITS); round++) {
        double t0 = now_ns();
        for (int i = 0; i < BATCH; i++)
            MPI_Irecv(backs + (size_t)bytes * i, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[i]);
        double t1 = now_ns();
        for (int i = 0; i < BATCH; i++)
            MPI_Isend(outs + (size_t)bytes * i, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[BATCH + i]);
        double t2 = now_ns();
        units(&work, word >> ROUND_BITS);
        double t3 = now_ns();
        MPI_Waitall(2 * BATCH, requests, MPI_STATUSES_IGNORE);
        double t4 = now_ns();
        spent->recv_ns += t1 - t0;
        spent->send_ns += t2 - t1;
        spent->work_ns += t3 - t2;
        spent->wait_ns += t4 - t3;
        spent->rounds++;
    }
}

static double total_ns(const struct spent *s) { return s->recv_ns + s->send_ns + s->work_ns + s->wait_ns; }

static void rounds_for(double time_ns, uint64_t count, struct spent *spent) {
    double start = now_ns();
    while (now_ns() - start < time_ns || spent->rounds == 0) {
        double fit = spent->rounds ? 1e6 / (total_ns(spent) / spent->rounds) : 1;
        uint64_t n = fit < 1 ? 1 : fit > ROUND_COUNT_MAX ? ROUND_COUNT_MAX : (uint64_t)fit, word = count << ROUND_BITS | n;
        tell(word);
        hear();
        rounds(word, spent);
    }
}

static void posts(double share) {
    struct spent cold = {0}, warm = {0}, spent = {0};
    if (rank == 1) {
        for (uint64_t word; (word = hear()) != END;) {
            tell(AGAIN);
            rounds(word, &spent);
        }
        return;
    }
    rounds_for(warm_ns(), 0, &cold);
    rounds_for(warm_ns(), 0, &warm);
    uint64_t count = units_in(total_ns(&warm) / warm.rounds * share / (1 - share));
    read_cpu(cpu[0]);
    rounds_for(seconds * 1e9, count, &spent);
    read_cpu(cpu[1]);
    tell(END);
    double messages = (double)spent.rounds * BATCH;
    char figures[300];
    snprintf(figures, sizeof figures,
             "\"post_recv_ns\":%.1f,\"post_send_ns\":%.1f,\"wait_ns\":%.1f,\"work_share\":%.6f",
             spent.recv_ns / messages, spent.send_ns / messages, spent.wait_ns / messages,
             spent.work_ns / total_ns(&spent));
    report(messages, total_ns(&spent), figures);
}

int main(int argc, char **argv) {
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 5 || size != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    const char *pattern = argv[1];
    double a = atof(argv[4]), b = argc > 5 ? atof(argv[5]) : 0, c = argc > 6 ? atof(argv[6]) : 0;
    other = 1 - rank;
    bytes = atoi(argv[2]);
    seconds = atof(argv[3]);
    if (bytes < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    if (strcmp(pattern, "doublebuf") == 0) {
        doublebuf(a != 0, b, c != 0);
    } else {
        in_turn(calibrate);
        who = (int)a;
        thread_count = b < 1 ? 1 : (int)b;
        if (strcmp(pattern, "availability") == 0) availability((uint64_t)a, b < 1 ? 1 : b > DEPTH_MAX ? DEPTH_MAX : (int)b);
        else if (strcmp(pattern, "overlap") == 0) overlap();
        else if (strcmp(pattern, "posts") == 0) posts(a / 100);
        else MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
