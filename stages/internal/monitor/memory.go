package monitor

import (
	"bufio"
	"fmt"
	"os"
)

// PSS is the proportional set size of processes in bytes: resident memory, with shared pages divided among those that
// share them. A process that has ended counts nothing.
func PSS(pids ...int) int64 {
	var sum int64
	for _, pid := range pids {
		sum += pss(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	}
	return sum
}

func pss(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(s.Text(), "Pss: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
