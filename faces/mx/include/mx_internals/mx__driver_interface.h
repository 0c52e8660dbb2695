/* Programs look for this file to learn whether there is `mx__get_mapper_state`. */
#include "../mx_io.h"
