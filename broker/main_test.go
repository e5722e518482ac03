package broker_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"penstock/broker/brokertest"
)

func TestMain(m *testing.M) {
	code := brokertest.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
