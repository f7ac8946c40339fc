/* One rank of an MPI library: the way an MPI user meets it.
 *
 * Speaks the protocol of bench/agent.h. Usage: mpirun … mpi_agent SOCKET SYSTEM
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int rank, np;
static char operation[32];
static size_t elements, inputs, outputs;
static float *input, *output; /* The same memory where the operation is in place. */

static int is(const char* name) { return strcmp(operation, name) == 0; }

static float inputValue(int of, size_t index) { return (float)((int)(index % 1021) + 1000 * of); }

static float sumOfInputs(size_t index) {
  float sum = 0;
  for (int of = 0; of < np; ++of) sum += inputValue(of, index);
  return sum;
}

static float outputValue(size_t index) {
  const size_t part = elements / np;
  if (is("allreduce") || is("reduce")) return sumOfInputs(index);
  if (is("broadcast")) return inputValue(0, index);
  if (is("reduce_scatter")) return sumOfInputs(rank * part + index);
  if (is("allgather")) return inputValue((int)(index / part), index % part);
  return inputValue((int)(index / part), rank * part + index % part); /* alltoall */
}

static void prepare(void) {
  if (output != input) free(output);
  free(input);
  inputs = is("allgather") ? elements / np : elements;
  outputs = is("reduce_scatter") ? elements / np : elements;
  input = output = calloc(inputs + 1, sizeof(float));
  if (!is("allreduce") && !is("broadcast")) output = calloc(outputs + 1, sizeof(float));
}

/* One call of each operation. Errors end the whole MPI job, with a message: MPI's default. */
static void allreduce(void) {
  MPI_Allreduce(MPI_IN_PLACE, input, (int)elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void broadcast(void) { MPI_Bcast(input, (int)elements, MPI_FLOAT, 0, MPI_COMM_WORLD); }
static void reduce(void) {
  MPI_Reduce(input, output, (int)elements, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void reduceScatter(void) {
  MPI_Reduce_scatter_block(input, output, (int)outputs, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void allgather(void) {
  MPI_Allgather(input, (int)inputs, MPI_FLOAT, output, (int)inputs, MPI_FLOAT, MPI_COMM_WORLD);
}
static void alltoall(void) {
  const int part = (int)elements / np;
  MPI_Alltoall(input, part, MPI_FLOAT, output, part, MPI_FLOAT, MPI_COMM_WORLD);
}
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static const struct {
  const char* name;
  void (*call)(void);
} kCalls[] = {{"allreduce", allreduce}, {"broadcast", broadcast},
              {"reduce", reduce},       {"reduce_scatter", reduceScatter},
              {"allgather", allgather}, {"alltoall", alltoall},
              {"barrier", barrier}};

static void run(long iterations) {
  for (size_t i = 0; i < sizeof(kCalls) / sizeof(*kCalls); ++i) {
    if (!is(kCalls[i].name)) continue;
    for (long n = 0; n < iterations; ++n) kCalls[i].call();
  }
}

static void answer(FILE* coordinator, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(coordinator, format, arguments);
  va_end(arguments);
  fputc('\n', coordinator);
  fflush(coordinator);
}

static void verify(FILE* coordinator) {
  for (size_t i = 0; i < inputs; ++i) input[i] = inputValue(rank, i);
  run(1);
  const int hasResult = !is("barrier") && !(is("reduce") && rank != 0);
  for (size_t i = 0; hasResult && i < outputs; ++i) {
    if (output[i] != outputValue(i)) {
      answer(coordinator, "error wrong result: element %zu of %zu is %g, not %g", i, outputs,
             (double)output[i], (double)outputValue(i));
      return;
    }
  }
  memset(input, 0, inputs * sizeof(float));
  memset(output, 0, outputs * sizeof(float));
  answer(coordinator, "ok 0");
}

static int connectTo(const char* path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
  if (fd < 0 || connect(fd, (struct sockaddr*)&address, sizeof(address)) != 0) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return fd;
}

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* Ends with mpirun, however that ends. */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &np);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);

  const int fd = connectTo(argv[1]);
  FILE* questions = fdopen(fd, "r");
  FILE* coordinator = fdopen(dup(fd), "w");
  answer(coordinator, "hello %s %d", argv[2], rank);
  char line[256];
  long iterations = 0;
  while (fgets(line, sizeof(line), questions) != NULL) {
    if (sscanf(line, "prepare %31s %zu", operation, &elements) == 2) {
      prepare();
      answer(coordinator, "ok");
    } else if (strncmp(line, "verify", 6) == 0) {
      verify(coordinator);
    } else if (sscanf(line, "measure %ld", &iterations) == 1) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      run(iterations);
      answer(coordinator, "ok %.9f", MPI_Wtime() - start);
    } else {
      answer(coordinator, "error \"%.*s\" means nothing to an agent", (int)strcspn(line, "\n"),
             line);
    }
  }
  MPI_Finalize();
  return 0;
}
