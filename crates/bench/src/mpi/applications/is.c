/* is. Keys are counted by bucket; the buckets are shared out so that each rank gets about as many keys; the keys go there and are ranked.
 * Each iteration has other keys, so that none passes with the messages of another. */

enum { IS_KEY_BITS = 16, IS_BUCKETS = 32, IS_BUCKET_SHIFT = IS_KEY_BITS - 5, IS_KEYS = 1 << IS_KEY_BITS };

static struct {
	long count, room; /* keys of a rank, and how many may come */
	uint32_t *keys, *by_bucket, *arrived;
	int *rank_of; /* how many keys of this rank are below each */
	int *out_count, *out_at, *in_count, *in_at;
	uint32_t iteration;
} is;

static void is_begin(long bytes)
{
	is.count = bytes / sizeof(uint32_t);
	is.room = 2 * is.count;
	is.iteration = 0;
	is.keys = room(is.count * sizeof(uint32_t));
	is.by_bucket = room(is.count * sizeof(uint32_t));
	is.arrived = room(is.room * sizeof(uint32_t));
	is.rank_of = room(IS_KEYS * sizeof(int));
	int **lists[] = {&is.out_count, &is.out_at, &is.in_count, &is.in_at};
	for (int i = 0; i < 4; i++)
		*lists[i] = room(size * sizeof(int));
	for (long i = 0; i < is.count; i++)
		is.keys[i] = (uint32_t)((scatter(rank * is.count + i) + 1) / 2 * IS_KEYS) % IS_KEYS;
}

/* What does not depend on the order of keys, but on each. */
static uint64_t is_mixed(uint32_t key)
{
	return (uint64_t)(key + 1) * (key + 77);
}

/* Keys by bucket, and how many go to which rank; the first key that a rank gets is in firsts[rank]. */
static uint64_t is_sort_out(uint32_t *firsts)
{
	int own[IS_BUCKETS] = {0}, all[IS_BUCKETS], at[IS_BUCKETS];
	uint64_t mixed = 0;
	for (long i = 0; i < is.count; i++) {
		uint32_t key = is.keys[i] = (is.keys[i] * 5 + is.iteration) % IS_KEYS;
		own[key >> IS_BUCKET_SHIFT]++;
		mixed += is_mixed(key);
	}
	MPI_Allreduce(own, all, IS_BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	memset(is.out_count, 0, size * sizeof(int));
	long below = 0, before = 0;
	for (int bucket = 0, taker = -1; bucket < IS_BUCKETS; bucket++) {
		for (; taker + 1 < size && below >= (taker + 1) * is.count; taker++)
			firsts[taker + 1] = (uint32_t)bucket << IS_BUCKET_SHIFT;
		is.out_count[taker] += own[bucket];
		at[bucket] = before;
		before += own[bucket];
		below += all[bucket];
	}
	for (long i = 0; i < is.count; i++) {
		uint32_t key = is.keys[i];
		is.by_bucket[at[key >> IS_BUCKET_SHIFT]++] = key;
	}
	return mixed;
}

/* How many keys of this rank are below each key. */
static uint64_t is_rank_keys(long arrived_count, uint32_t first, uint32_t end)
{
	uint64_t mixed = 0;
	memset(is.rank_of, 0, IS_KEYS * sizeof(int));
	for (long i = 0; i < arrived_count; i++) {
		uint32_t key = is.arrived[i];
		if (key < first || key >= end)
			wrong("is, a key of another rank", key);
		is.rank_of[key]++;
		mixed += is_mixed(key);
	}
	for (uint32_t key = first, below = 0; key < end; key++) {
		uint32_t count = is.rank_of[key];
		is.rank_of[key] = below;
		below += count;
	}
	return mixed;
}

static void is_round(void)
{
	uint32_t firsts[size + 1];
	for (int i = 0; i <= size; i++)
		firsts[i] = IS_KEYS;
	is.iteration++;
	uint64_t sums[2] = {is_sort_out(firsts), 0}, all[2];
	MPI_Alltoall(is.out_count, 1, MPI_INT, is.in_count, 1, MPI_INT, MPI_COMM_WORLD);
	long arrived_count = 0;
	for (int i = 0, at = 0; i < size; i++) {
		is.out_at[i] = at;
		at += is.out_count[i];
		is.in_at[i] = arrived_count;
		arrived_count += is.in_count[i];
	}
	if (arrived_count > is.room)
		wrong("is, too many keys", arrived_count - is.room);
	MPI_Alltoallv(is.by_bucket, is.out_count, is.out_at, MPI_UINT32_T, is.arrived, is.in_count, is.in_at, MPI_UINT32_T,
		      MPI_COMM_WORLD);
	sums[1] = is_rank_keys(arrived_count, firsts[rank], firsts[rank + 1]);
	MPI_Allreduce(sums, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	if (all[0] != all[1])
		wrong("is, keys that arrived are not those that left", (double)(int64_t)(all[1] - all[0]));
}

static void is_end(void)
{
	void *all[] = {is.keys, is.by_bucket, is.arrived, is.rank_of, is.out_count, is.out_at, is.in_count, is.in_at};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}
