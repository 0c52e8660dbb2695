/* NaN where there is no such case. `inside_ns` is left alone where there is no such measurement. */
static double measure(const char *text, long *bytes, double seconds, double *inside_ns)
{
	char name[16] = "";
	double work_ns;
	if (sscanf(text, "rmpp/%lf:%ld", &work_ns, bytes) == 2)
		return measure_rmpp(work_ns, *bytes, seconds);
	if (sscanf(text, "%15[a-z]:%ld", name, bytes) == 2)
		for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
			if (!strcmp(name, KERNELS[i].name))
				return measure_kernel(&KERNELS[i], *bytes, seconds, inside_ns);
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
		double inside_ns = NAN, value = measure(argv[i], &bytes, atof(argv[1]), &inside_ns);
		if (value != value) {
			fprintf(stderr, "there is no case %s\n", argv[i]);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
		int name_len = strcspn(argv[i], ":");
		if (rank == 0)
			printf("row %.*s %ld %.3f\n", name_len, argv[i], bytes, value);
		if (rank == 0 && inside_ns == inside_ns)
			printf("row %.*s/mpi %ld %.3f\n", name_len, argv[i], bytes, inside_ns);
		fflush(stdout);
	}
	MPI_Finalize();
	return 0;
}
