package target

import (
	"strings"
	"time"

	"penstock/broker/policy"
	"penstock/schema"
)

// elsewhere reports whether a root is to be left to another target: what this one computed of its batch was bad, and
// another one lives. One that does not take it within AckWait has not the chance to, and this one tries again itself.
func (s *session) elsewhere(r schema.Batch, st policy.Status) (bool, error) {
	if st.Suspects == 0 || st.From != s.w.Instance {
		return false, nil
	}
	if s.left == nil {
		s.left = map[uint32]time.Time{}
	}
	since, ok := s.left[r.Index]
	if !ok {
		since = time.Now()
		s.left[r.Index] = since
	}
	if time.Since(since) > s.w.AckWait {
		return false, nil
	}
	living, err := s.w.Run.Holders()
	if err != nil {
		return false, err
	}
	for _, h := range living {
		if strings.HasPrefix(h.Name, s.w.Stage+"-") && h.Name != s.w.Instance {
			return true, nil
		}
	}
	return false, nil
}
