// A libcudart that knows its version.
#ifndef VERSION
#define VERSION 12090
#endif

int cudaRuntimeGetVersion(int *version) { return *version = VERSION, 0; }
