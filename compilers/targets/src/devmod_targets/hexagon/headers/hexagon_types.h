/* clang's header uses HVX_Vector on all cores with HVX, and defines it for v65 and later ones alone. */
#pragma once
#include <hvx_hexagon_protos.h> /* clang's header includes it, for the actual core */
#pragma push_macro("__HVX_ARCH__")
#if __HVX_ARCH__ < 65
#undef __HVX_ARCH__
#define __HVX_ARCH__ 65
#endif
#include_next <hexagon_types.h>
#pragma pop_macro("__HVX_ARCH__")
