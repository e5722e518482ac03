package verify

import (
	"context"
	"testing"

	"penstock/kernels"
)

const demo = "../../../deploy/demo/"

func TestGolden(t *testing.T) {
	for _, name := range []string{"tiny-go", "tiny-go-trained"} {
		t.Run(name, func(t *testing.T) {
			r, err := Run(context.Background(), &kernels.Ref{}, Options{TargetDir: demo + "models/tiny-go", GoldenDir: demo + "golden/" + name, Decode: 2})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", r)
			if !r.OK {
				t.Errorf("a check failed:\n%s", r)
			}
		})
	}
}
