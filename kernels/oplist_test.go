package kernels_test

import (
	"reflect"
	"slices"
	"testing"

	"penstock/kernels"
)

// TestOpListIsComplete holds the table to the interfaces.
func TestOpListIsComplete(t *testing.T) {
	var want, got []string
	for _, i := range []reflect.Type{
		reflect.TypeFor[kernels.Mover](), reflect.TypeFor[kernels.Linear](), reflect.TypeFor[kernels.Normaliser](),
		reflect.TypeFor[kernels.Attention](), reflect.TypeFor[kernels.Loss](), reflect.TypeFor[kernels.Optimizer](),
	} {
		for m := range i.NumMethod() {
			want = append(want, i.Method(m).Name)
		}
	}
	for _, op := range kernels.OpList {
		got = append(got, op.Name)
		if op.Operands == "" || op.Tolerance < 0 || op.Rounded < 0 {
			t.Errorf("%s: operands %q, tolerance %v", op.Name, op.Operands, op.Tolerance)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("OpList names %v, the interfaces %v", got, want)
	}
}
