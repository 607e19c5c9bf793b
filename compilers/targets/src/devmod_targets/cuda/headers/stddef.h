#pragma once
#if !defined(offsetof)
#define offsetof(type, member) (::size_t) ((char*) &(((type*) 0)->member) - (char*) 0)
#endif
typedef long double max_align_t;
