// Matrix products of bfloat16 tiles by one warp: mma.sync m16n8k16 with float32 sums, operands read by ldmatrix, tiles
// filled by cp.async (PTX ISA, "Warp Level Matrix Instructions"; compute capability 8.0 and up).
//
// A bfloat16 is a u16 here. Within a warp, g = lane / 4 and t = lane % 4; of a 16×8 product a thread holds
// c[0..1] = row g, columns 2t, 2t+1 and c[2..3] = row g + 8, the same columns.
#pragma once
#include "common.cuh"

typedef unsigned short u16;
typedef unsigned int u32;

__device__ inline u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// c += a·b; a 16×16, b 16×8.
__device__ inline void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void load_matrices(u32 (&r)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}

__device__ inline void load_transposed(u32 (&r)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}

// copy_async copies BYTES (4, 8 or 16) when `real` is set, and writes zeros otherwise; `from` must be a valid address.
template <int BYTES> __device__ inline void copy_async(u32 to, const void *from, bool real) {
    int n = real ? BYTES : 0;
    if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(n));
}

__device__ inline void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// copies_wait waits until at most PENDING of the thread's committed groups are under way.
template <int PENDING> __device__ inline void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

// pack rounds two floats to bfloat16; lo is the lower half.
__device__ inline u32 pack(float lo, float hi) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

__device__ inline float lower(u32 pair) { return __uint_as_float(pair << 16); }
__device__ inline float upper(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

// 2^x; exp2_fast(-INF) is 0.
__device__ inline float exp2_fast(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// to_a turns a 16×16 product (two 16×8 ones side by side) into the left operand of the next.
__device__ inline void to_a(u32 (&a)[4], const float (&left)[4], const float (&right)[4]) {
    a[0] = pack(left[0], left[1]), a[1] = pack(left[2], left[3]);
    a[2] = pack(right[0], right[1]), a[3] = pack(right[2], right[3]);
}

// Mat is the address of a tile of rows of D bfloat16 in shared memory, 256-byte aligned. The 16-byte chunk c of row r lies
// at chunk c ^ (r % 8), so that the eight rows of a matrix lie in distinct banks.
template <int D> struct Mat {
    static const int chunks = D / 8;
    static const int row_bytes = D * 2;

    __device__ static u32 at(u32 mat, int row, int chunk) { return mat + row * row_bytes + ((chunk ^ (row & 7)) << 4); }

    // Where a lane reads rows 0.. and columns 0.. of the operands below; row and column offsets are added as stated there.
    __device__ static u32 lane_a(u32 mat) { return at(mat, lane_id() & 15, lane_id() >> 4); }
    __device__ static u32 lane_b(u32 mat) { return at(mat, (lane_id() & 7) + (lane_id() >> 4) * 8, (lane_id() >> 3) & 1); }

    // a[16×16] = rows row.. (a multiple of 16), columns 16·k..
    __device__ static void a(u32 (&r)[4], u32 lane, int row, int k) { load_matrices(r, (lane ^ (k << 5)) + row * row_bytes); }
    // Two b[16×8] = the transposes of rows row.. and row + 8.. , columns 16·k..: products with rows of the tile.
    __device__ static void b(u32 (&r)[4], u32 lane, int row, int k) { load_matrices(r, (lane ^ (k << 5)) + row * row_bytes); }
    // Two b[16×8] = rows row.., columns 16·n.. and 16·n + 8..; its lanes start as those of `a`.
    __device__ static void b_rows(u32 (&r)[4], u32 lane, int row, int n) { load_transposed(r, (lane ^ (n << 5)) + row * row_bytes); }

    // store writes a 16-row product at rows row.. as bfloat16, times `by` for rows g and g + 8.
    __device__ static void store(u32 mat, int row, const float (&c)[D / 8][4], float by0, float by1) {
        int g = lane_id() >> 2, t = lane_id() & 3;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            u32 to = at(mat, row + g, n) + t * 4;
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(pack(c[n][0] * by0, c[n][1] * by0)) : "memory");
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + 8 * row_bytes), "r"(pack(c[n][2] * by1, c[n][3] * by1)) : "memory");
        }
    }
};

__device__ inline uint4 read_chunk(u32 from) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
    return v;
}
