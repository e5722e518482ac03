package worker

import (
	"testing"

	"penstock/stages/internal/account"
)

func TestFlyingComputesWhileAnythingIsUnderWay(t *testing.T) {
	book := account.New(account.Starting)
	f := NewFlying(book)
	want := func(activity string) {
		t.Helper()
		if got := book.Current(); got != activity {
			t.Errorf("%s, want %s", got, activity)
		}
	}
	f.Wait(account.NoCredit)
	want(account.NoCredit)
	f.Begin()
	f.Wait(account.NoSlot)
	want(account.Compute)
	f.Begin()
	f.End()
	want(account.Compute)
	f.End()
	want(account.NoInput)
	f.Begin()
	f.Wait(account.NoSlot)
	f.End()
	want(account.NoSlot)
}
