/* ft. Rows of complex numbers, a share of them at each rank; there and back is a round of two iterations. The input is a sum of waves,
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
