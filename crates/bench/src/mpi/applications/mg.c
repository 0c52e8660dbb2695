/* mg. Periodic in all directions, slabs of planes; a coarser grid has half the points in each direction. What a coarser grid lacks in
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
