#pragma once
#include <devmod_hip.h>
