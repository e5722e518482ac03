// Matrix products of bfloat16 by a warpgroup: wgmma with float32 sums, and what a producer and its consumers need to pass
// tiles in shared memory (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate" and "mbarrier"; sm_90a alone).
//
// A warpgroup is four warps; warp w of it holds rows 16·w.. of a product of 64 rows, as in mma.cuh.
#pragma once
#include "mma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WGMMA

// A Panel is a tile of rows of 64 columns: 128 bytes a row, chunks placed as by Mat<64>, 1024-byte aligned. A tile of D
// columns is D / 64 panels, one behind the other.

// panel_rows describes a panel whose rows are rows of the operand, its columns those that are summed over (K-major).
__device__ inline u64 panel_rows(u32 at) { return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }

// panel_columns describes panels whose rows are summed over and whose columns are those of the product (MN-major); the next
// 64 columns begin `next` bytes further on.
__device__ inline u64 panel_columns(u32 at, int next) {
    return (u64)((at & 0x3ffff) >> 4) | (u64)(next >> 4) << 16 | 64ull << 32 | 1ull << 62;
}

// wgmma: c = a·b, or c += a·b with `add`, of 16 summed places; asynchronous. Operands in shared memory are transposed (their
// panels hold columns) where TA or TB is 1.
template <int TA, int TB> __device__ inline void wgmma(float (&c)[8][4], u64 a, u64 b, bool add) {
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, add, 1, 1, %35, %36; }"
                 : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]),
                   "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]),
                   "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
                   "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
                 : "l"(a), "l"(b), "r"((int)add), "n"(TA), "n"(TB));
}

template <int TB> __device__ inline void wgmma(float (&c)[8][4], const u32 (&a)[4], u64 b, bool add) {
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, {%32, %33, %34, %35}, %36, add, 1, 1, %38; }"
                 : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]),
                   "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]),
                   "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
                   "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"(TB));
}

template <int TA, int TB> __device__ inline void wgmma(float (&c)[16][4], u64 a, u64 b, bool add) {
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
                 "}, %64, %65, add, 1, 1, %67, %68; }"
                 : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]),
                   "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]),
                   "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
                   "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3]),
                   "+f"(c[8][0]), "+f"(c[8][1]), "+f"(c[8][2]), "+f"(c[8][3]), "+f"(c[9][0]), "+f"(c[9][1]), "+f"(c[9][2]), "+f"(c[9][3]),
                   "+f"(c[10][0]), "+f"(c[10][1]), "+f"(c[10][2]), "+f"(c[10][3]), "+f"(c[11][0]), "+f"(c[11][1]), "+f"(c[11][2]), "+f"(c[11][3]),
                   "+f"(c[12][0]), "+f"(c[12][1]), "+f"(c[12][2]), "+f"(c[12][3]), "+f"(c[13][0]), "+f"(c[13][1]), "+f"(c[13][2]), "+f"(c[13][3]),
                   "+f"(c[14][0]), "+f"(c[14][1]), "+f"(c[14][2]), "+f"(c[14][3]), "+f"(c[15][0]), "+f"(c[15][1]), "+f"(c[15][2]), "+f"(c[15][3])
                 : "l"(a), "l"(b), "r"((int)add), "n"(TA), "n"(TB));
}

template <int TB> __device__ inline void wgmma(float (&c)[16][4], const u32 (&a)[4], u64 b, bool add) {
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
                 "}, {%64, %65, %66, %67}, %68, add, 1, 1, %70; }"
                 : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]),
                   "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]),
                   "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
                   "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3]),
                   "+f"(c[8][0]), "+f"(c[8][1]), "+f"(c[8][2]), "+f"(c[8][3]), "+f"(c[9][0]), "+f"(c[9][1]), "+f"(c[9][2]), "+f"(c[9][3]),
                   "+f"(c[10][0]), "+f"(c[10][1]), "+f"(c[10][2]), "+f"(c[10][3]), "+f"(c[11][0]), "+f"(c[11][1]), "+f"(c[11][2]), "+f"(c[11][3]),
                   "+f"(c[12][0]), "+f"(c[12][1]), "+f"(c[12][2]), "+f"(c[12][3]), "+f"(c[13][0]), "+f"(c[13][1]), "+f"(c[13][2]), "+f"(c[13][3]),
                   "+f"(c[14][0]), "+f"(c[14][1]), "+f"(c[14][2]), "+f"(c[14][3]), "+f"(c[15][0]), "+f"(c[15][1]), "+f"(c[15][2]), "+f"(c[15][3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"(TB));
}

// Between other uses of registers or operands and the products that read them.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// wgmma_wait waits until at most PENDING committed groups are under way.
template <int PENDING> __device__ inline void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }

// hold keeps the compiler from moving uses of c across a wait.
template <int N> __device__ inline void hold(float (&c)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) asm volatile("" : "+f"(c[n][i])::"memory");
}

// publish makes a thread's writes to shared memory visible to wgmma; a barrier follows.
__device__ inline void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

template <int REGISTERS> __device__ inline void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS)); }
template <int REGISTERS> __device__ inline void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS)); }

// Barriers in shared memory, 8 bytes each; a phase ends when `count` threads have arrived.
__device__ inline void barrier_init(u32 bar, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
__device__ inline void barrier_arrive(u32 bar) { asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(bar) : "memory"); }
__device__ inline void barrier_wait(u32 bar, int parity) {
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(bar), "r"(parity) : "memory");
}

// Ring is STAGES slots that a producer fills and CONSUMERS warpgroups empty, item by item in one order. Its barriers lie at
// `bars`: those of full slots and then those of empty ones.
template <int STAGES> struct Ring {
    static const int bytes = 2 * STAGES * 8;
    u32 bars;
    int slot, phase;

    __device__ explicit Ring(u32 bars) : bars(bars), slot(0), phase(0) {}
    __device__ static void init(u32 bars, int producers, int consumers) {
        for (int i = 0; i < STAGES; i++) barrier_init(bars + 8 * i, producers), barrier_init(bars + 8 * (STAGES + i), consumers);
    }
    __device__ u32 full() const { return bars + 8 * slot; }
    __device__ u32 empty() const { return bars + 8 * (STAGES + slot); }
    __device__ void next() {
        if (++slot == STAGES) slot = 0, phase ^= 1;
    }
    __device__ void wait_full() const { barrier_wait(full(), phase); }
    __device__ void wait_empty() const { barrier_wait(empty(), phase ^ 1); } // the first pass finds all slots empty
};

// Publisher lets a producing thread begin the copies of one item before it waits for those of the item before.
struct Publisher {
    u32 begun;

    __device__ Publisher() : begun(0) {}
    // next takes the copies since the last call as an item; its barrier is arrived at when they are visible.
    __device__ void next(u32 bar) {
        copies_commit();
        if (begun) {
            copies_wait<1>();
            publish();
            barrier_arrive(begun);
        }
        begun = bar;
    }
    __device__ void end() {
        copies_wait<0>();
        publish();
        if (begun) barrier_arrive(begun);
    }
};
#endif
