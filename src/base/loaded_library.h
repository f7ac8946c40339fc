// A shared library that is looked for while the program runs, because the program works without it.
//
// It is never closed: such libraries leave threads and handlers behind.
#pragma once

#include <dlfcn.h>

namespace colla {

class LoadedLibrary {
 public:
  // `file` as dlopen() takes it, "libmunge.so.2"; dlerror() then says why it is not loaded.
  explicit LoadedLibrary(const char* file) : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {}

  bool loaded() const { return handle_ != nullptr; }

  // Sets `function` to the library's function of this name, or to nullptr and returns false.
  template <typename Function>
  bool find(const char* name, Function*& function) const {
    void* const found = handle_ == nullptr ? nullptr : dlsym(handle_, name);
    function = reinterpret_cast<Function*>(found);
    return found != nullptr;
  }

 private:
  void* const handle_;
};

}  // namespace colla
