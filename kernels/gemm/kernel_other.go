//go:build !amd64

package gemm

func kernels() []kernel { return []kernel{portable} }
