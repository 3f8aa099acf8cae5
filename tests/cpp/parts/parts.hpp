// What the two libraries of the program do. The trace is a tp_trace of tptrace's.
struct tp_trace;
void linked_work(tp_trace *trace, int number);
void loaded_work(tp_trace *trace, int number);
