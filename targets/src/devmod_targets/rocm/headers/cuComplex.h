#pragma once
#include <hip/hip_complex.h>

typedef hipFloatComplex cuFloatComplex;
typedef hipDoubleComplex cuDoubleComplex;
typedef hipComplex cuComplex;
#define make_cuFloatComplex make_hipFloatComplex
#define make_cuDoubleComplex make_hipDoubleComplex
#define make_cuComplex make_hipComplex
#define cuCreal hipCreal
#define cuCimag hipCimag
#define cuConj hipConj
#define cuCabs hipCabs
#define cuCadd hipCadd
#define cuCsub hipCsub
#define cuCmul hipCmul
#define cuCdiv hipCdiv
#define cuCfma hipCfma
#define cuCrealf hipCrealf
#define cuCimagf hipCimagf
#define cuConjf hipConjf
#define cuCabsf hipCabsf
#define cuCaddf hipCaddf
#define cuCsubf hipCsubf
#define cuCmulf hipCmulf
#define cuCdivf hipCdivf
#define cuCfmaf hipCfmaf
