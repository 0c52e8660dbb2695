/* What `packhorse compare --mpi --applications` measures: the inner loops of programs, and a program that works until its message is there.
 * Usage: applications SECONDS pin|free CASE...
 *   cg:BYTES         conjugate gradients, a sparse matrix by rows: four exchanges of BYTES with each neighbour, each before a
 *                    product of a third of a millisecond, and two reductions of 8 bytes an iteration
 *   mg:BYTES         multigrid, a grid in slabs: halos of BYTES, a quarter and a sixteenth of it, each before computations of about 60 us
 *   ft:BYTES         a Fourier transform in two dimensions: one transposition (MPI_Alltoall) of BYTES a rank
 *   is:BYTES         a bucket sort: keys of BYTES a rank (MPI_Alltoallv), and small reductions
 *   rmpp/WORK:BYTES  the loop of Figure 9 of the RMPP paper: isend, irecv, pieces of work of WORK ns until it is received; four under way;
 *                    the partner sends everything back
 * Rank 0 prints a line "row CASE BYTES VALUE" for each: ns an iteration, of the slowest rank; for rmpp bytes a second that come back, times
 * the share of the processor that went into the work. How much is computed is a matter of BYTES, not of time: the work is the same whoever
 * carries the messages. All results are compared with what is known of them; one that is wrong ends the program. */

enum { UP = 1, DOWN = 2 };

static int last, next; /* neighbours in a ring; of two ranks each is both to the other */

static void wrong(const char *what, double by)
{
	fprintf(stderr, "rank %d: %s: the result is wrong by %g\n", rank, what, by);
	MPI_Abort(MPI_COMM_WORLD, 4);
}

static void *room(size_t len)
{
	void *memory = calloc(1, len);
	if (!memory)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return memory;
}

/* From -1 to 1, as good as random, the same for all who ask for this number. */
static double scatter(uint64_t number)
{
	number = (number + 1) * 0x9e3779b97f4a7c15u;
	number = (number ^ (number >> 29)) * 0xbf58476d1ce4e5b9u;
	return (double)((number ^ (number >> 32)) & 0xfffff) / 0x80000 - 1;
}

static double largest_difference(const double *a, const double *b, long count)
{
	double most = 0;
	for (long i = 0; i < count; i++) {
		double by = fabs(a[i] - b[i]);
		most = by > most || by != by ? by : most; /* what is no number is the most of all */
		if (most != most)
			break;
	}
	return most;
}

static void verify(const char *what, double by, double allowed)
{
	if (!(by <= allowed))
		wrong(what, by);
}

/* ---- cg. An equation is at i plus and minus each of some distances that are shorter than a rank's part: a product needs the parts of both
 * neighbours. The preconditioner is three steps of Jacobi's, a product each. */

enum { CG_DISTANCES = 23, CG_ENTRIES = 2 * CG_DISTANCES + 1, CG_SWEEPS = 3, CG_ITERATIONS = 20 };
static const double CG_DOMINANCE = 1.05, CG_ALLOWED = 1e-7;

static struct {
	long rows; /* of a rank */
	int *column; /* of CG_ENTRIES a row; seen from the rank's first */
	double *value, diagonal;
	/* The long ones have the neighbours' parts before and behind. */
	double *p_long, *z_long, *solution_long, *x, *r, *product, *b;
} cg;

/* Own part to both neighbours, theirs to its sides. */
static void cg_exchange(double *own)
{
	MPI_Request receives[2];
	int count = size == 2 ? 1 : 2;
	MPI_Irecv(own - cg.rows, cg.rows, MPI_DOUBLE, last, UP, MPI_COMM_WORLD, &receives[0]);
	if (count == 2)
		MPI_Irecv(own + cg.rows, cg.rows, MPI_DOUBLE, next, DOWN, MPI_COMM_WORLD, &receives[1]);
	MPI_Send(own, cg.rows, MPI_DOUBLE, next, UP, MPI_COMM_WORLD);
	if (count == 2)
		MPI_Send(own, cg.rows, MPI_DOUBLE, last, DOWN, MPI_COMM_WORLD);
	MPI_Waitall(count, receives, MPI_STATUSES_IGNORE);
}

static void cg_multiply(const double *own, double *product)
{
	const int *column = cg.column;
	const double *value = cg.value;
	for (long i = 0; i < cg.rows; i++) {
		double sum = 0;
		for (int k = 0; k < CG_ENTRIES; k++)
			sum += *value++ * own[*column++];
		product[i] = sum;
	}
}

static double cg_dot(const double *a, const double *b)
{
	double sum = 0, all;
	for (long i = 0; i < cg.rows; i++)
		sum += a[i] * b[i];
	MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

static void cg_precondition(double *z)
{
	for (long i = 0; i < cg.rows; i++)
		z[i] = cg.r[i] / cg.diagonal;
	for (int sweep = 0; sweep < CG_SWEEPS; sweep++) {
		cg_exchange(z);
		cg_multiply(z, cg.product);
		for (long i = 0; i < cg.rows; i++)
			z[i] += (cg.r[i] - cg.product[i]) / cg.diagonal;
	}
}

static void cg_begin(long bytes)
{
	long rows = cg.rows = bytes / sizeof(double), distance[CG_DISTANCES];
	double weight[CG_DISTANCES], sum = 0;
	for (int k = 0; k < CG_DISTANCES; k++) {
		distance[k] = 1 + (long)(k * 0.618034 * rows) % (rows - 1);
		weight[k] = 1.0 / (k + 1);
		sum += 2 * weight[k];
	}
	cg.diagonal = CG_DOMINANCE * sum;
	cg.column = room(rows * CG_ENTRIES * sizeof *cg.column);
	cg.value = room(rows * CG_ENTRIES * sizeof *cg.value);
	for (long i = 0, at = 0; i < rows; i++)
		for (int k = -CG_DISTANCES; k <= CG_DISTANCES; k++, at++) {
			long column = k == 0 ? i : k < 0 ? i - distance[-k - 1] : i + distance[k - 1];
			/* With two ranks the part behind is the one before. */
			cg.column[at] = size == 2 && column >= rows ? column - 2 * rows : column;
			cg.value[at] = k == 0 ? cg.diagonal : -weight[abs(k) - 1];
		}
	double **longs[] = {&cg.p_long, &cg.z_long, &cg.solution_long};
	for (int i = 0; i < 3; i++)
		*longs[i] = room(3 * rows * sizeof(double));
	double **shorts[] = {&cg.x, &cg.r, &cg.product, &cg.b};
	for (int i = 0; i < 4; i++)
		*shorts[i] = room(rows * sizeof(double));
	for (long i = 0; i < 3 * rows; i++)
		cg.solution_long[i] = scatter((i + (rank + size - 1) * rows) % (size * rows));
	cg_multiply(cg.solution_long + rows, cg.b);
}

/* A solution from the beginning. */
static void cg_round(void)
{
	double *p = cg.p_long + cg.rows, *z = cg.z_long + cg.rows, *q = cg.product;
	memset(cg.x, 0, cg.rows * sizeof(double));
	memcpy(cg.r, cg.b, cg.rows * sizeof(double));
	cg_precondition(z);
	memcpy(p, z, cg.rows * sizeof(double));
	double rho = cg_dot(cg.r, z);
	for (int iteration = 0; iteration < CG_ITERATIONS; iteration++) {
		cg_exchange(p);
		cg_multiply(p, q);
		double alpha = rho / cg_dot(p, q);
		for (long i = 0; i < cg.rows; i++) {
			cg.x[i] += alpha * p[i];
			cg.r[i] -= alpha * q[i];
		}
		cg_precondition(z);
		double before = rho;
		rho = cg_dot(cg.r, z);
		for (long i = 0; i < cg.rows; i++)
			p[i] = z[i] + rho / before * p[i];
	}
	verify("cg", largest_difference(cg.x, cg.solution_long + cg.rows, cg.rows), CG_ALLOWED);
}

static void cg_end(void)
{
	void *all[] = {cg.column, cg.value, cg.p_long, cg.z_long, cg.solution_long, cg.x, cg.r, cg.product, cg.b};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

/* ---- mg. Periodic in all directions, slabs of planes; a coarser grid has half the points in each direction. What a coarser grid lacks in
 * points it makes up for in sweeps between two exchanges. */

enum { MG_LEVELS = 3, MG_PLANES = 12, MG_WIDTH = 64, MG_CYCLES = 12 };
static const int MG_SWEEPS[MG_LEVELS] = {1, 6, 40};
static const double MG_SHIFT = 0.1, MG_DAMPING = 0.85, MG_ALLOWED = 1e-4;

static struct level {
	int width, height, planes;
	long plane; /* points of one */
	double diagonal;
	double *u, *f, *spare; /* with a plane of each neighbour before and behind; f without */
} mg[MG_LEVELS];
static double *mg_solution;

static void mg_exchange(struct level *v)
{
	MPI_Request all[4];
	MPI_Irecv(v->u, v->plane, MPI_DOUBLE, last, UP, MPI_COMM_WORLD, &all[0]);
	MPI_Irecv(v->u + (v->planes + 1) * v->plane, v->plane, MPI_DOUBLE, next, DOWN, MPI_COMM_WORLD, &all[1]);
	MPI_Isend(v->u + v->planes * v->plane, v->plane, MPI_DOUBLE, next, UP, MPI_COMM_WORLD, &all[2]);
	MPI_Isend(v->u + v->plane, v->plane, MPI_DOUBLE, last, DOWN, MPI_COMM_WORLD, &all[3]);
	MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
}

/* What a row's equations lack: f minus the operator on u. */
static void mg_lack(const struct level *v, int z, int y, double *restrict lack)
{
	long plane = v->plane;
	int width = v->width, end = width - 1, above = (y + 1) % v->height, below = (y + v->height - 1) % v->height;
	double diagonal = v->diagonal;
	const double *here = v->u + z * plane + y * width, *f = v->f + (z - 1) * plane + y * width;
	const double *a = v->u + z * plane + above * width, *b = v->u + z * plane + below * width;
	const double *c = here - plane, *d = here + plane;
	for (int x = 1; x < end; x++)
		lack[x] = f[x] - diagonal * here[x] + (here[x - 1] + here[x + 1]) + (a[x] + b[x]) + (c[x] + d[x]);
	lack[0] = f[0] - diagonal * here[0] + (here[end] + here[1]) + (a[0] + b[0]) + (c[0] + d[0]);
	lack[end] = f[end] - diagonal * here[end] + (here[end - 1] + here[0]) + (a[end] + b[end]) + (c[end] + d[end]);
}

/* One exchange, and so many sweeps of Jacobi's with what it brought. */
static void mg_smooth(int l)
{
	struct level *v = &mg[l];
	double lack[MG_WIDTH], part = MG_DAMPING / v->diagonal, *old;
	mg_exchange(v);
	for (int sweep = 0; sweep < MG_SWEEPS[l]; sweep++) {
		for (int z = 1; z <= v->planes; z++)
			for (int y = 0; y < v->height; y++) {
				const double *here = v->u + z * v->plane + y * v->width;
				double *better = v->spare + z * v->plane + y * v->width;
				mg_lack(v, z, y, lack);
				for (int x = 0; x < v->width; x++)
					better[x] = here[x] + part * lack[x];
			}
		memcpy(v->spare, v->u, v->plane * sizeof(double));
		long end = (v->planes + 1) * v->plane;
		memcpy(v->spare + end, v->u + end, v->plane * sizeof(double));
		old = v->u;
		v->u = v->spare;
		v->spare = old;
	}
}

/* What is lacking becomes the coarser grid's right side: the mean of eight points, by four for its longer steps. */
static void mg_restrict(int l)
{
	struct level *v = &mg[l], *w = &mg[l + 1];
	double lack[MG_WIDTH];
	mg_exchange(v);
	memset(w->f, 0, w->planes * w->plane * sizeof(double));
	memset(w->u, 0, (w->planes + 2) * w->plane * sizeof(double));
	for (int z = 0; z < v->planes; z++)
		for (int y = 0; y < v->height; y++) {
			double *coarse = w->f + z / 2 * w->plane + y / 2 * w->width;
			mg_lack(v, z + 1, y, lack);
			for (int x = 0; x < w->width; x++)
				coarse[x] += 0.5 * (lack[2 * x] + lack[2 * x + 1]);
		}
}

static void mg_correct(int l)
{
	struct level *v = &mg[l], *w = &mg[l + 1];
	for (int z = 0; z < v->planes; z++)
		for (int y = 0; y < v->height; y++) {
			const double *coarse = w->u + (z / 2 + 1) * w->plane + y / 2 * w->width;
			double *fine = v->u + (z + 1) * v->plane + y * v->width;
			for (int x = 0; x < v->width; x++)
				fine[x] += coarse[x / 2];
		}
}

static void mg_cycle(int l)
{
	mg_smooth(l);
	if (l + 1 < MG_LEVELS) {
		mg_restrict(l);
		mg_cycle(l + 1);
		mg_correct(l);
	}
	mg_smooth(l);
}

static void mg_begin(long bytes)
{
	long plane = bytes / sizeof(double);
	double shift = MG_SHIFT;
	for (int l = 0; l < MG_LEVELS; l++, shift *= 4) {
		struct level *v = &mg[l];
		v->width = MG_WIDTH >> l;
		v->height = plane / MG_WIDTH >> l;
		v->planes = MG_PLANES >> l;
		v->plane = (long)v->width * v->height;
		v->diagonal = 6 + shift;
		v->u = room((v->planes + 2) * v->plane * sizeof(double));
		v->spare = room((v->planes + 2) * v->plane * sizeof(double));
		v->f = room(v->planes * v->plane * sizeof(double));
	}
	/* The right side follows from the solution. */
	struct level *v = &mg[0];
	long own = v->planes * v->plane;
	mg_solution = room(own * sizeof(double));
	for (long i = -v->plane; i < own + v->plane; i++)
		v->u[i + v->plane] = scatter((i + (rank + size) * own) % (size * own));
	memcpy(mg_solution, v->u + v->plane, own * sizeof(double));
	for (int z = 1; z <= v->planes; z++)
		for (int y = 0; y < v->height; y++)
			mg_lack(v, z, y, v->spare + z * v->plane + y * v->width);
	for (long i = 0; i < own; i++)
		v->f[i] = -v->spare[i + v->plane];
}

static void mg_round(void)
{
	struct level *v = &mg[0];
	memset(v->u, 0, (v->planes + 2) * v->plane * sizeof(double));
	for (int cycle = 0; cycle < MG_CYCLES; cycle++)
		mg_cycle(0);
	verify("mg", largest_difference(v->u + v->plane, mg_solution, v->planes * v->plane), MG_ALLOWED);
}

static void mg_end(void)
{
	for (int l = 0; l < MG_LEVELS; l++) {
		free(mg[l].u);
		free(mg[l].spare);
		free(mg[l].f);
	}
	free(mg_solution);
}

/* ---- ft. Rows of complex numbers, a share of them at each rank; there and back is a round of two iterations. The input is a sum of waves,
 * so the transform is known: a peak for each wave. */

enum { FT_WAVES = 8 };
static const double FT_ALLOWED = 1e-9;

static struct {
	long rows, columns; /* in all */
	double *data, *other, *packed, *input, *transform;
} ft;

/* Radix 2, in place. Forward with sign -1. */
static void ft_line(double *a, long n, int sign)
{
	for (long i = 1, j = 0; i < n; i++) {
		long bit = n >> 1;
		for (; j & bit; bit >>= 1)
			j ^= bit;
		j ^= bit;
		if (i < j) {
			double re = a[2 * i], im = a[2 * i + 1];
			a[2 * i] = a[2 * j];
			a[2 * i + 1] = a[2 * j + 1];
			a[2 * j] = re;
			a[2 * j + 1] = im;
		}
	}
	for (long half = 1; half < n; half *= 2) {
		double step_re = cos(M_PI / half), step_im = sign * sin(M_PI / half), re = 1, im = 0;
		for (long k = 0; k < half; k++) {
			for (long i = k; i < n; i += 2 * half) {
				double *x = a + 2 * i, *y = x + 2 * half;
				double y_re = y[0] * re - y[1] * im, y_im = y[0] * im + y[1] * re;
				y[0] = x[0] - y_re;
				y[1] = x[1] - y_im;
				x[0] += y_re;
				x[1] += y_im;
			}
			double turned = re * step_re - im * step_im;
			im = re * step_im + im * step_re;
			re = turned;
		}
	}
}

/* A rank's `rows` lines of `columns`, all ranks' together transposed: its columns / size lines of rows * size. */
static void ft_transpose(const double *from, double *to, long rows, long columns)
{
	long width = columns / size, block = 2 * rows * width;
	for (long c = 0; c < columns; c++)
		for (long r = 0; r < rows; r++)
			memcpy(ft.packed + 2 * (c * rows + r), from + 2 * (r * columns + c), 2 * sizeof(double));
	double *arrived = to == ft.data ? ft.other : ft.data; /* `from` is packed and no longer needed */
	MPI_Alltoall(ft.packed, block, MPI_DOUBLE, arrived, block, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int source = 0; source < size; source++)
		for (long c = 0; c < width; c++)
			memcpy(to + 2 * (c * rows * size + source * rows), arrived + source * block + 2 * c * rows,
			       2 * rows * sizeof(double));
}

static void ft_begin(long bytes)
{
	long all = bytes / (2 * sizeof(double)) * size;
	for (ft.rows = ft.columns = 1; ft.rows * ft.columns < all;)
		if (ft.columns > ft.rows)
			ft.rows *= 2;
		else
			ft.columns *= 2;
	if (ft.rows * ft.columns != all || ft.rows % size != 0 || ft.columns % size != 0) {
		fprintf(stderr, "ft: %ld numbers among %d ranks: both must be powers of two\n", all, size);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	double **arrays[] = {&ft.data, &ft.other, &ft.packed, &ft.input, &ft.transform};
	for (int i = 0; i < 5; i++)
		*arrays[i] = room(bytes);
	long rows = ft.rows / size, width = ft.columns / size;
	for (int wave = 0; wave < FT_WAVES; wave++) {
		long a = (wave * 37 + 5) % ft.rows, b = (wave * 101 + 3) % ft.columns;
		double weight = scatter(wave);
		for (long r = 0; r < rows; r++)
			for (long c = 0; c < ft.columns; c++) {
				double turn = (double)(a * (rank * rows + r) % ft.rows) / ft.rows +
					      (double)(b * c % ft.columns) / ft.columns;
				ft.input[2 * (r * ft.columns + c)] += weight * cos(2 * M_PI * turn);
				ft.input[2 * (r * ft.columns + c) + 1] += weight * sin(2 * M_PI * turn);
			}
		if (b / width == rank) /* lines of the transform are columns of the input */
			ft.transform[2 * ((b % width) * ft.rows + a)] += weight * all;
	}
	memcpy(ft.data, ft.input, bytes);
}

static void ft_round(void)
{
	long rows = ft.rows / size, width = ft.columns / size, share = 2 * rows * ft.columns;
	double all = (double)ft.rows * ft.columns;
	for (long r = 0; r < rows; r++)
		ft_line(ft.data + 2 * r * ft.columns, ft.columns, -1);
	ft_transpose(ft.data, ft.other, rows, ft.columns);
	for (long c = 0; c < width; c++)
		ft_line(ft.other + 2 * c * ft.rows, ft.rows, -1);
	verify("ft", largest_difference(ft.other, ft.transform, share) / all, FT_ALLOWED);
	for (long c = 0; c < width; c++)
		ft_line(ft.other + 2 * c * ft.rows, ft.rows, 1);
	ft_transpose(ft.other, ft.data, width, ft.rows);
	for (long r = 0; r < rows; r++)
		ft_line(ft.data + 2 * r * ft.columns, ft.columns, 1);
	for (long i = 0; i < share; i++)
		ft.data[i] /= all;
	verify("ft, back", largest_difference(ft.data, ft.input, share), FT_ALLOWED);
}

static void ft_end(void)
{
	double *all[] = {ft.data, ft.other, ft.packed, ft.input, ft.transform};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

/* ---- is. Keys are counted by bucket; the buckets are shared out so that each rank gets about as many keys; the keys go there and are ranked.
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

/* ---- How an iteration is timed. */

struct kernel {
	const char *name;
	int iterations; /* of a round */
	void (*begin)(long bytes);
	void (*round)(void);
	void (*end)(void);
};

static const struct kernel KERNELS[] = {
	{"cg", CG_ITERATIONS, cg_begin, cg_round, cg_end},
	{"mg", MG_CYCLES, mg_begin, mg_round, mg_end},
	{"ft", 2, ft_begin, ft_round, ft_end},
	{"is", 1, is_begin, is_round, is_end},
};

static double run_rounds(const struct kernel *kernel, long count)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime(), taken, slowest;
	for (long i = 0; i < count; i++)
		kernel->round();
	taken = MPI_Wtime() - begin;
	MPI_Allreduce(&taken, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

/* ns an iteration. */
static double measure_kernel(const struct kernel *kernel, long bytes, double seconds)
{
	kernel->begin(bytes);
	kernel->round(); /* first contact is not what is measured */
	long count = (long)(seconds / run_rounds(kernel, 1)) + 1;
	double value = run_rounds(kernel, count) / (count * kernel->iterations) * 1e9;
	kernel->end();
	return value;
}

/* ---- rmpp. */

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

/* NaN where there is no such case. */
static double measure(const char *text, long *bytes, double seconds)
{
	char name[16] = "";
	double work_ns;
	if (sscanf(text, "rmpp/%lf:%ld", &work_ns, bytes) == 2)
		return measure_rmpp(work_ns, *bytes, seconds);
	if (sscanf(text, "%15[a-z]:%ld", name, bytes) == 2)
		for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
			if (!strcmp(name, KERNELS[i].name))
				return measure_kernel(&KERNELS[i], *bytes, seconds);
	return NAN;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc < 4 || size < 2 || size % 2 != 0) {
		fprintf(stderr, "usage: applications SECONDS pin|free CASE..., with an even number of ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	last = (rank + size - 1) % size;
	next = (rank + 1) % size;
	if (strcmp(argv[2], "pin") == 0)
		keep_to_a_core();
	learn_to_compute();
	for (int i = 3; i < argc; i++) {
		long bytes = 0;
		double value = measure(argv[i], &bytes, atof(argv[1]));
		if (value != value) {
			fprintf(stderr, "there is no case %s\n", argv[i]);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
		if (rank == 0)
			printf("row %.*s %ld %.3f\n", (int)strcspn(argv[i], ":"), argv[i], bytes, value);
		fflush(stdout);
	}
	MPI_Finalize();
	return 0;
}
