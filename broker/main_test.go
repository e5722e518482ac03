package broker_test

import (
	"os"
	"testing"

	"penstock/broker/brokertest"
)

func TestMain(m *testing.M) { os.Exit(brokertest.Main(m)) }
