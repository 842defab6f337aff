# SPDX-License-Identifier: Apache-2.0
#
#   make demo     installs what is missing, then two programs share a GPU
#   make check    installs what is missing, then runs every test
#   make          only the programs and the library
#   make install  DESTDIR=… PREFIX=/usr
#   make install-compat  COMPATDIR=…  the programs by NVIDIA's names, in a separate folder
#   make install-everywhere  DESTDIR=… PREFIX=/usr  makes every CUDA program load the client library;
#                 make uninstall-everywhere removes that
#   make deb      Debian packages in build/deb
#   make uninstall  DESTDIR=… PREFIX=/usr  removes what make install has installed
#   make dist     the source as an archive in build
#   make lint     format, clang-tidy, includes between folders
#   make compile_commands.json  for clangd and editors: how each file is compiled
#   make help     these lines
#
# SAN=address,undefined or SAN=thread builds in build-SAN; COVERAGE=1 builds in build-coverage, with
# counters for lines; DEBUG=1 builds in build-debug, for a debugger. Builds with SAN or DEBUG check
# the order of locks. DEBUG and COVERAGE count only on the command line, because other tools read
# variables of these names. All output is under $(BUILD).

SAN ?=
COVERAGE :=
DEBUG :=
empty :=
comma := ,
BUILD ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(COVERAGE),-coverage)$(if $(DEBUG),-debug)
PREFIX ?= /usr/local
VERSION ?= 0.1
# The programs need only CUDA's headers, the tests also its compiler.
CUDA_HOME := $(shell export CUDA_HOME=$(CUDA_HOME); tests/setup --cuda || tests/setup --headers)
NVCC ?= $(or $(shell export CUDA_HOME=$(CUDA_HOME); tests/setup --nvcc),$(CUDA_HOME)/bin/nvcc)
PYTHON ?= python3
LIBUV ?= $(firstword $(wildcard /usr/lib/*/libuv_a.a /usr/lib/*/libuv.a /usr/local/lib/libuv.a) -luv)

# Compression of images; linked statically, so that an installed server needs no library.
static = $(firstword $(wildcard /usr/lib/*/lib$(1).a /usr/local/lib/lib$(1).a) -l$(1))
UNPACKERS ?= $(call static,lz4) $(call static,zstd)

# Empty where the library is missing: the daemon then knows no service manager.
SYSTEMD ?= $(if $(wildcard /usr/include/systemd/sd-daemon.h),-lsystemd)

# Empty where the library is missing: names of C++ functions then stay as they are.
DEMANGLER ?= $(addprefix -Wl$(comma)-u$(comma)__gcclibcxx_demangle_callback ,$(filter /%,$(shell \
	$(CC) -print-file-name=libstdc++.a)))

# Empty where the library, which is a header of C++, is missing: -a FILE then fails.
TOML ?= $(and $(filter /%,$(shell $(CC) -print-file-name=libstdc++.a)),$(wildcard /usr/include/toml++/toml.h))
CXX ?= g++

JANSSON ?= $(call static,jansson)
# The terminal of mps-top; tinfo is a part of ncurses.
NCURSES ?= $(foreach l,ncursesw tinfo,$(call static,$(l)))

GEN := $(BUILD)/gen
OBJ := $(BUILD)/obj

# Sanitizers: their reports need lines only, and compiling is most of their time.
CFLAGS ?= $(if $(SAN),-O1 -g1,$(if $(DEBUG),-Og,-O2) -g)
WARN := -Wall -Wextra -Werror=implicit-function-declaration -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
# gcc 15 and later clear only the first member of a union that is initialized by {0}.
ZERO_UNIONS := $(shell $(CC) -fzero-init-padding-bits=unions -E -x c /dev/null >/dev/null 2>&1 && \
	echo -fzero-init-padding-bits=unions)
# -isystem suppresses warnings in CUDA's headers.
ALL_CFLAGS = -std=gnu17 -D_GNU_SOURCE $(WARN) $(WERROR) $(CFLAGS) $(ZERO_UNIONS) -fno-strict-aliasing -pthread \
	-iquote include -I$(GEN) -isystem $(CUDA_HOME)/include -MMD -MP
# The build ID tells an upgraded daemon which servers are of an earlier build.
ALL_LDFLAGS = $(LDFLAGS) -pthread -Wl,--build-id
ifneq ($(SAN),)
ALL_CFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=undefined -fno-omit-frame-pointer
ALL_LDFLAGS += -fsanitize=$(SAN)
endif
# include/lock.h. All objects have to agree, since a lock is then larger.
LOCK_CHECKS := $(if $(SAN)$(DEBUG),yes)
ifneq ($(LOCK_CHECKS),)
ALL_CFLAGS += -DLOCK_CHECKS
endif
# With this sanitizer, the software GPU's interpreter would take half of the time of system tests. Unit
# tests and fuzzers of the interpreter have it.
ifneq ($(findstring address,$(SAN)),)
$(OBJ)/softgpu/tests/softgpu/ptx/%.o: ALL_CFLAGS += -fno-sanitize=all -O2
endif
# Lines are counted in the programs, and in tests that are linked with their files.
ifneq ($(COVERAGE),)
COUNTED := --coverage -fprofile-update=atomic -include tests/fuzz/count_exits.h
ALL_LDFLAGS += --coverage
endif

PROGRAMS := $(addprefix $(BUILD)/bin/mps-,control server top exporter)
LIBRARY := $(BUILD)/lib/libmpsclient.so
CHECK := $(BUILD)/lib/mps-check
SOFTGPU := $(BUILD)/softgpu/libcuda.so.1

.PHONY: all
all: $(PROGRAMS) $(BUILD)/bin/mps-run $(CHECK) $(LIBRARY) $(BUILD)/lib/libcuda.so.1 $(BUILD)/lib/libcuda.so

# ---- what is generated

# The headers are those of the last run: some are named after the rooms of the spec.
GENERATED := $(sort $(wildcard $(GEN)/*.h) $(addprefix $(GEN)/,send.c stubs.c procs.c cuda_api.c dispatch.c \
	record_rules.c wire.c client.syms symbols.h calls.md coverage.md test_rules.c))

# The hash that two builds compare covers the layout of shared memory and frames.
WIRE := include/layout.h include/frame.h include/counters.h
# The one that a server and its successor compare covers what is sent when clients move, too.
MOVED := $(wildcard server/*.[ch] server/*/*.[ch])

$(GEN)/.stamp: proto/cuda.spec $(WIRE) $(MOVED) $(wildcard proto/*.py proto/gen/*.py proto/*.txt) | $(GEN)
	$(PYTHON) proto/gen.py --spec proto/cuda.spec --headers $(CUDA_HOME)/include --out $(GEN) \
		$(addprefix --wire ,$(WIRE)) --server server
	@touch $@
$(GENERATED): $(GEN)/.stamp ;
$(GEN):
	@mkdir -p $@

# ---- objects: obj/USER/PATH.o; each user compiles with its own flags

# $(1) user, $(2) its flags
define compile
$(OBJ)/$(1)/%.o: %.c | $(GEN)/.stamp
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $(2) -c $$< -o $$@
$(OBJ)/$(1)/gen/%.o: $(GEN)/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $(2) -c $$< -o $$@
endef

objects = $(patsubst %.c,$(OBJ)/$(1)/%.o,$(patsubst $(GEN)/%,gen/%,$(2)))

$(eval $(call compile,daemon,-iquote . -DMPS_VERSION='"$(VERSION)"' $(if $(SYSTEMD),-DMPS_SYSTEMD) \
	$(if $(TOML),-DMPS_TOML) $(COUNTED)))
$(OBJ)/daemon/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) -std=gnu++17 -Wall -Wextra -fno-exceptions -fno-rtti $(filter -O% -g% -f%,$(CFLAGS)) -MMD -MP -c $< -o $@
$(eval $(call compile,server,-iquote . $(COUNTED)))
$(eval $(call compile,client,-iquote . -fPIC -fvisibility=hidden -ftls-model=initial-exec))
$(eval $(call compile,check,-iquote . $(COUNTED)))
# LeakSanitizer takes the dynamic thread-local memory of a small library for something else, and ends.
$(eval $(call compile,softgpu,-iquote . -fPIC -ftls-model=initial-exec -ffp-contract=off))
# cmocka 1 lacks what cmocka 2 recommends instead of some checks.
$(eval $(call compile,test,-iquote . -DMPS_SCRIBBLE -DCMOCKA_DISABLE_DEPRECATION_WARNINGS $(COUNTED)))

# ---- archives, for programs and tests. The linker takes the objects that are needed.

# $(1) name, $(2) objects. The list notices that a file is gone.
define archive
$(BUILD)/archives/$(1).list: force
	@mkdir -p $$(@D)
	@echo $(2) | cmp -s - $$@ || echo $(2) >$$@
$(BUILD)/archives/$(1).a: $(BUILD)/archives/$(1).list $(2)
	@rm -f $$@
	@ar rcsT $$@ $$(filter %.o,$$^)
endef
.PHONY: force

archives = $(1:%=$(BUILD)/archives/%.a)
$(foreach user,daemon server client check test,$(eval $(call archive,proto-$(user),$(call objects,$(user),$(wildcard proto/*.c)))))

# ---- programs

DAEMON_SRC := $(wildcard daemon/*.c daemon/*/*.c)
SERVER_SRC := $(wildcard server/*.c server/*/*.c) $(addprefix $(GEN)/,dispatch.c record_rules.c cuda_api.c wire.c)
# Not in the library: what `mps-run --check' runs.
CHECK_SRC := $(wildcard client/check/*.c)
CLIENT_SRC := $(filter-out client/check/%,$(wildcard client/*/*.c)) \
	$(addprefix $(GEN)/,send.c stubs.c procs.c cuda_api.c wire.c)
SOFTGPU_SRC := $(wildcard tests/softgpu/*/*.c tests/softgpu/*/*/*.c) client/entry/tables.c client/context/storage.c client/entry/integrity.c \
	client/util/md2.c client/transport/error.c client/memory/advice.c $(if $(LOCK_CHECKS),proto/lock.c) $(GEN)/procs.c

# Programs of the daemon's folder: each is the room of its name, and what that needs of the archive.
$(eval $(call archive,daemon,$(call objects,daemon,$(filter-out %/main.c,$(DAEMON_SRC))) \
	$(if $(TOML),$(OBJ)/daemon/daemon/config/toml_parse.o)))
DAEMON_LIBS := $(LIBUV) $(JANSSON) $(SYSTEMD) $(DEMANGLER) $(if $(TOML),-static-libgcc)

$(BUILD)/bin/mps-control: $(call objects,daemon,daemon/main.c) $(call archives,daemon proto-daemon)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(DAEMON_LIBS) -ldl

$(BUILD)/bin/mps-top: $(call objects,daemon,daemon/top/main.c) $(call archives,daemon proto-daemon)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(NCURSES) $(JANSSON) $(DEMANGLER)

$(BUILD)/bin/mps-exporter: $(call objects,daemon,daemon/exporter/main.c) $(call archives,daemon proto-daemon)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lmicrohttpd

$(BUILD)/bin/mps-server: $(call objects,server,$(SERVER_SRC)) $(call archives,proto-server)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBUV) $(UNPACKERS) -ldl

$(CHECK): $(call objects,check,$(CHECK_SRC)) $(call archives,proto-check)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^

$(BUILD)/bin/mps-run: client/mps-run
	@mkdir -p $(@D)
	install $< $@

# Without -pthread: only libc, with symbols of glibc 2.17 (client/util/compat.h).
$(LIBRARY): $(call objects,client,$(CLIENT_SRC)) $(call archives,proto-client) $(GEN)/client.syms client/check-symbols
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(if $(SAN),-fsanitize=$(SAN)) -shared -Wl,-soname,libcuda.so.1 \
		-Wl,--version-script=$(GEN)/client.syms -Wl,-Bsymbolic -Wl,-z,now,-z,defs,-z,nodelete \
		-o $@ $(filter %.o %.a,$^)
	$(if $(SAN),,@client/check-symbols $@ || { rm -f $@; exit 1; })

$(BUILD)/lib/libcuda.so.1 $(BUILD)/lib/libcuda.so: $(LIBRARY)
	ln -sf libmpsclient.so $@

$(SOFTGPU): $(call objects,softgpu,$(SOFTGPU_SRC)) tests/softgpu/softgpu.syms
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libcuda.so.1 \
		-Wl,--version-script=tests/softgpu/softgpu.syms -Wl,-Bsymbolic -Wl,-z,nodelete \
		-o $@ $(filter %.o,$^) -llz4 -lzstd -lm -ldl

$(SOFTGPU:.1=): $(SOFTGPU)
	ln -sf $(<F) $@

.PHONY: softgpu
softgpu: $(SOFTGPU) $(SOFTGPU:.1=)

# ---- tests, installation, packages

include tests/tests.mk
include daemon/dist/package.mk

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)

.PHONY: clean
clean:
	rm -rf $(BUILD)
