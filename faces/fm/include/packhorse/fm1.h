/* Fast Messages 1.1: FM_send, FM_send_4, and FM_extract() without an argument. */
#ifndef PACKHORSE_FM1_H
#define PACKHORSE_FM1_H

#include <packhorse/fm.h>

#define FM_extract() FM_extract_all()

#endif
