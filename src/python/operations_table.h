/* The named operations of this process, for a library of a different compiler.
 *
 * TensorFlow's kernels are compiled with the flags of the TensorFlow that is installed, against its
 * headers. They link to nothing of Colla: they get this table, in which there are C's types alone.
 * colla._core makes it, and `Exchange.table` is a capsule with it: see operations_table.cc.
 *
 * Every function may be called from any thread. A code is that of a colla::StatusCode; 0 is fine.
 */
#ifndef COLLA_PYTHON_OPERATIONS_TABLE_H
#define COLLA_PYTHON_OPERATIONS_TABLE_H

#include <stdint.h>

/* The capsule's name. Its number changes with this file. */
#define COLLA_OPERATIONS_CAPSULE "colla.OperationsTable.1"

/* Values of colla::named::Kind. */
enum {
  COLLA_ALLREDUCE,
  COLLA_ALLGATHER,
  COLLA_BROADCAST,
  COLLA_ALLTOALL,
  COLLA_REDUCESCATTER,
  COLLA_BARRIER
};

/* Values of colla::DataType. */
enum {
  COLLA_FLOAT32,
  COLLA_FLOAT64,
  COLLA_BFLOAT16,
  COLLA_FLOAT16,
  COLLA_INT8,
  COLLA_INT16,
  COLLA_INT32,
  COLLA_INT64,
  COLLA_UINT8,
  COLLA_BOOL
};

/* Values of colla::StatusCode that a caller may tell apart. */
enum {
  COLLA_INVALID_ARGUMENT = 10,
  COLLA_UNSUPPORTED = 12,
  COLLA_CANCELLED = 13,
  COLLA_MISMATCH = 30,
  COLLA_NO_MEMORY = 41
};

/* What `number` says. */
enum {
  COLLA_RANK,
  COLLA_SIZE, /* Of the process set. */
  COLLA_LOCAL_RANK,
  COLLA_LOCAL_SIZE,
  COLLA_INCLUDED, /* 1 if this process is a member of the process set, else 0. */
  COLLA_NO_SUCH_SET = -2
};

typedef struct {
  const int64_t* values;
  int64_t count;
} CollaNumbers;

/* One part of an operation: colla::named::Request says what the fields mean. */
typedef struct {
  int32_t type;
  CollaNumbers shape;
  const void* input;
  uint64_t bytes;
  void* caller; /* The first argument of `output` and `done`. */
  /* The memory for a result of this shape; a null pointer if there is none. */
  void* (*output)(void* caller, CollaNumbers shape);
  /* Called once if the part was taken. `numbers`: the rows that came from each member of an
   * alltoall. */
  void (*done)(void* caller, int32_t code, const char* message, CollaNumbers numbers);
} CollaPart;

typedef struct {
  int32_t kind;
  const char* name; /* Empty: the next number of this kind and set, in the order in which this
                       process comes. */
  int32_t set;
  int32_t op; /* A value of colla::named::Op. */
  double prescale;
  double postscale;
  int32_t root;
  CollaNumbers splits;
  const CollaPart* parts; /* Several are carried out together. */
  int64_t count;
} CollaOperation;

/* Where a call that refuses puts its reason, which ends with a 0. */
typedef struct {
  char text[1024];
} CollaReason;

typedef struct {
  void* exchange; /* The first argument of the functions below. */
  int32_t (*submit)(void* exchange, const CollaOperation* operation, CollaReason* reason);
  /* `done` gets the number of the rank that joined last. */
  int32_t (*join)(void* exchange, void* caller,
                  void (*done)(void* caller, int32_t code, const char* message,
                               CollaNumbers numbers),
                  CollaReason* reason);
  int32_t (*number)(void* exchange, int32_t what, int32_t set);
} CollaOperationsTable;

#endif
