/* Prints every member's place; the test compares it with tests/abi/layout.txt. Sizes and offsets are part of the ABI:
 * a line of that file never changes, lines are only added at the end of a struct. */
#include "check.h"

#define STRUCT(type) printf("%s %zu\n", #type, sizeof(type))
#define MEMBER(type, member) printf("%s.%s %zu %zu\n", #type, #member, offsetof(type, member), sizeof(((type *)0)->member))

int main(void) {
#include "members.inc"
    return 0;
}
