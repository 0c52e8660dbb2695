/* Loaded before Open MPI by `cargo xtask portals`, over Portals and over TCP alike. Open MPI 4.1's mtl/portals4 reads the status of a matched probe although the caller may have
 * asked for none (ompi_mtl_portals4_improbe), and dies of it over any Portals. By MPI's interface for profiling such a caller gets one that is thrown away. */
#include <mpi.h>

#pragma weak PMPI_Mprobe
#pragma weak PMPI_Improbe

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
  MPI_Status nobodys;
  return PMPI_Mprobe(source, tag, comm, message, status == MPI_STATUS_IGNORE ? &nobodys : status);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
  MPI_Status nobodys;
  return PMPI_Improbe(source, tag, comm, flag, message, status == MPI_STATUS_IGNORE ? &nobodys : status);
}
