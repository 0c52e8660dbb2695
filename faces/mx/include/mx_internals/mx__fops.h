/* Programs look for this file to learn whether there is `mx_open_board`. */
#include "../mx_io.h"
