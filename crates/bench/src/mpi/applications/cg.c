/* cg. Row i has entries at i, and at i plus and minus each of some distances that are shorter than a rank's part: a product needs the parts of both
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
