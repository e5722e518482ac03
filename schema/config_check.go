package schema

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// problem is one thing wrong with a configuration: where it was given and under which key, if that is known, and what.
type problem struct{ place, key, text string }

// Validate returns one error with a line for every problem of c, each led by its key. It opens no file.
func (c *Config) Validate() error { return report(c.problems()) }

// checker collects problems.
type checker []problem

func (c *checker) ok(good bool, key, format string, args ...any) {
	if !good {
		*c = append(*c, problem{key: key, text: fmt.Sprintf(format, args...)})
	}
}

func (c *checker) count(key string, v, lo, hi int) {
	c.ok(lo <= v && v <= hi, key, "%d is not in %d..%d", v, lo, hi)
}

// number requires lo ≤ v ≤ hi; NaN is outside of everything.
func (c *checker) number(key string, v, lo, hi float64) {
	c.ok(lo <= v && v <= hi, key, "%g is not in %g..%g", v, lo, hi)
}

func (c *checker) choice(key, v string, of ...string) {
	c.ok(slices.Contains(of, v), key, "%q is not one of %s", v, strings.Join(of, ", "))
}

const many = math.MaxInt32 // where the machine, not the configuration, sets the limit

func (c *Config) problems() []problem {
	var p checker
	c.checkFlow(&p)
	c.checkRecipe(&p)
	c.checkServices(&p)
	return p
}

// checkFlow checks what is read, how it is cut up and who works on it.
func (c *Config) checkFlow(p *checker) {
	_, gpu := ParseGPUs(c.Device)
	kind, path, ok := strings.Cut(c.Device, "/")
	p.ok(c.Device == "cpu" || ok && path != "" && (kind == "cpu" || kind == "sleep") || c.Device == "null" || gpu, "device",
		"%q is neither cpu, cpu/PATH with a matrix product that doctor lists, cuda, cuda:K or cuda:A-B (GPUs A to B) with or without /float32, null, nor sleep/FILE with a scenario", c.Device)

	p.ok(c.Target.Dir != "", "target.dir", "is not set: name the target's Hugging Face directory")
	p.count("target.instances", c.Target.Instances, 1, 64)
	p.count("target.slots", c.Target.Slots, 2, 1024)
	p.ok(len(c.Target.Taps) > 0, "target.taps", "is not set: list the layers whose outputs the drafter reads, such as [1, 9, 17, 25, 33] of 36")
	for i, t := range c.Target.Taps {
		if t < 0 || i > 0 && t <= c.Target.Taps[i-1] {
			p.ok(false, "target.taps", "%v is not an ascending list of distinct layers from 0 on", c.Target.Taps)
			break
		}
	}
	p.count("pack.instances", c.Pack.Instances, 1, 64)
	p.count("pack.slots", c.Pack.Slots, 2, 1024)
	p.number("pack.noise", c.Pack.Noise, 0, 1)

	p.ok(len(c.Data.Files) > 0 && !slices.Contains(c.Data.Files, ""), "data.files", "is not set or has an empty name: list the files to train on")
	p.count("data.max_length", c.Data.MaxLength, 2, 1<<24)
	p.choice("data.turns", c.Data.Turns, "all", "last")
	p.choice("data.thinking", c.Data.Thinking, "train", "skip")
	p.number("data.held_out", c.Data.HeldOut, 0, 0.9)
	edges, auto, err := c.Data.Edges()
	p.ok(err == nil, "data.buckets", "%v", err)
	if err == nil && auto == 0 {
		last := edges[len(edges)-1]
		p.ok(last >= c.Data.MaxLength, "data.buckets", "the last edge %d is below data.max_length %d: some documents would have no bucket", last, c.Data.MaxLength)
	}
	p.count("batch.tokens", c.Batch.Tokens, 2, many)
	p.count("window.batches", c.Window.Batches, 1, MaxWindowBatches)
	p.count("window.lookahead", c.Window.Lookahead, 1, 64)
}

// checkRecipe checks the drafter and how it is trained.
func (c *Config) checkRecipe(p *checker) {
	t, d := c.Train, c.Draft
	p.count("train.anchors", t.Anchors, 1, 1<<20)
	p.count("train.slots", t.Slots, 0, 1<<30)
	p.ok(t.LR > 0 && t.LR <= 1, "train.lr", "%g is not above 0 and at most 1", t.LR)
	p.choice("train.loss", t.Loss, "dflash", "dpace")
	p.number("train.gamma", t.Gamma, 0, 1e6)
	p.number("train.alpha", t.Alpha, 0, 1)
	p.count("train.epochs", t.Epochs, 1, 1<<20)
	p.count("train.max_steps", t.MaxSteps, 0, many)
	p.number("train.warmup", t.Warmup, 0, 1)
	p.choice("train.schedule", t.Schedule, "cosine", "linear", "constant", "wsd")
	p.number("train.cooldown", t.Cooldown, 0, 1)
	p.ok(t.Beta1 >= 0 && t.Beta1 < 1, "train.beta1", "%g is not in 0..1, 1 excluded", t.Beta1)
	p.ok(t.Beta2 >= 0 && t.Beta2 < 1, "train.beta2", "%g is not in 0..1, 1 excluded", t.Beta2)
	p.number("train.weight_decay", t.Decay, 0, 1)
	p.number("train.max_rejected", t.MaxRejected, 0, 1)
	p.ok(t.Clip > 0 && t.Clip <= math.MaxFloat32, "train.clip", "%g is not above 0", t.Clip)

	p.count("draft.block_size", d.BlockSize, 2, 256)
	p.count("draft.layers", d.Layers, 1, 256)
	p.count("draft.window", d.Window, 0, many)
	p.ok(d.Window < 1 || d.Window >= d.BlockSize, "draft.window", "%d is below draft.block_size %d: servers would hide a block's first slots from its last", d.Window, d.BlockSize)
	p.ok(d.Window < 1 || d.Layers > 1, "draft.window", "%d, but the last of draft.layers is never sliding, and there is only one", d.Window)
	p.count("draft.mask_token_id", d.MaskTokenID, -1, many)
	dir, isPath := strings.CutPrefix(d.Init, "path:")
	p.ok(d.Init == "target" || d.Init == "random" || isPath && dir != "", "draft.init", "%q is neither target, random nor path:DIR", d.Init)
	p.count("draft.ranks", d.Ranks, 1, 64)
	p.choice("draft.reduce", d.Reduce, "auto", "end", "host")
	p.ok(d.Ranks <= c.Window.Batches, "draft.ranks", "%d ranks share the %d batches of window.batches: some would have none", d.Ranks, c.Window.Batches)
}

// Warnings lists what is allowed but costs speed.
func (c *Config) Warnings() []string {
	var w []string
	if n, ranks := c.Window.Batches, c.Draft.Ranks; ranks > 0 && n%ranks != 0 {
		w = append(w, fmt.Sprintf("window.batches %d is not a multiple of draft.ranks %d: some ranks wait at the end of each step; %d or %d would not",
			n, ranks, n-n%ranks, n-n%ranks+ranks))
	}
	g, _ := ParseGPUs(c.Device)
	if used := c.Target.Instances + max(c.Pack.Instances, c.Draft.Ranks); used < g.N && g.N > 1 {
		w = append(w, fmt.Sprintf("device %s has %d GPUs, and only %d get a process: use more target.instances or draft.ranks, or fewer GPUs", c.Device, g.N, used))
	}
	return w
}

// checkServices checks evaluation, broker and checkpoints.
func (c *Config) checkServices(p *checker) {
	p.count("eval.every", c.Eval.Every, 0, many)
	p.ok(c.Eval.Every == 0 || c.Eval.Prompts != "", "eval.prompts", "is not set, but eval.every asks for evaluations")
	p.count("eval.limit", c.Eval.Limit, 1, many)
	p.count("eval.max_new", c.Eval.MaxNew, 1, 1<<20)

	u, err := url.Parse(c.Broker.URL)
	p.ok(c.Broker.URL == "" || err == nil && u.Host != "" && slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme),
		"broker.url", "%q is no NATS address such as nats://host:4222", redacted(u))
	if err == nil && u.User != nil {
		p.ok(false, "broker.url", "has a secret in it: put that into a credentials file and name it in broker.credentials")
	}
	b := c.Broker
	p.ok((b.TLSCert == "") == (b.TLSKey == ""), "broker.tls_cert", "and broker.tls_key go together")
	p.ok(b.URL != "" || b.TLSCert != "" || loopback(b.Host), "broker.host", "%s is not a loopback address: that needs TLS, set broker.tls_cert and broker.tls_key", b.Host)
	p.ok(c.Broker.Host != "", "broker.host", "is not set: name the address to bind, such as 127.0.0.1")
	p.count("broker.port", c.Broker.Port, 0, 65535)
	wait, err := time.ParseDuration(c.Broker.AckWait)
	p.ok(err == nil && wait >= time.Second, "broker.ack_wait", "%q is not a duration of at least 1s, such as 30s", c.Broker.AckWait)
	p.choice("broker.sync", c.Broker.Sync, "default", "always")

	for key, l := range map[string]ListenConfig{"metrics": c.Metrics, "page": c.Page} {
		p.ok(l.Host != "", key+".host", "is not set: name the address to bind, such as 127.0.0.1")
		p.count(key+".port", l.Port, 0, 65535)
	}

	last := c.Metrics.Port + c.Processes() - 1
	p.ok(c.Metrics.Port == 0 || last <= 65535, "metrics.port", "%d processes would take the ports %d..%d, and the last port is 65535: set a smaller one, or 0 for any free ones",
		c.Processes(), c.Metrics.Port, last)

	p.number("traces.sample", c.Traces.Sample, 0, 1)

	p.count("save.every", c.Save.Every, 0, many)
	p.count("save.keep", c.Save.Keep, 1, 1<<16)
}

// redacted is an address without its secrets; one that cannot be read is all secret.
func redacted(u *url.URL) string {
	if u == nil {
		return "..."
	}
	return u.Redacted()
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && ip.IsLoopback()
}

// Edges reads Buckets: ascending upper edges in tokens, or a number of buckets whose edges the data decide.
func (d DataConfig) Edges() (edges []int, auto int, err error) {
	if n, ok := strings.CutPrefix(d.Buckets, "auto:"); ok {
		if auto, err = strconv.Atoi(n); err != nil || auto < 1 || auto > 64 {
			return nil, 0, fmt.Errorf("%q: the number after auto: is not in 1..64", d.Buckets)
		}
		return nil, auto, nil
	}
	for s := range strings.SplitSeq(d.Buckets, ",") {
		e, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || e < 1 || e > 1<<24 || len(edges) > 0 && e <= edges[len(edges)-1] {
			return nil, 0, fmt.Errorf("%q is neither auto:N nor ascending upper edges such as 128,256,512", d.Buckets)
		}
		edges = append(edges, e)
	}
	if len(edges) > 64 {
		return nil, 0, fmt.Errorf("%d buckets are more than 64", len(edges))
	}
	return edges, 0, nil
}

// report joins problems, one a line.
func report(ps []problem) error {
	if len(ps) == 0 {
		return nil
	}
	lines := make([]string, len(ps))
	for i, p := range ps {
		for _, lead := range []string{p.place, p.key} {
			if lead != "" {
				lines[i] += lead + ": "
			}
		}
		lines[i] += p.text
	}
	return configError(strings.Join(lines, "\n"))
}

// configError is what is wrong with a configuration, a problem a line.
type configError string

func (e configError) Error() string { return string(e) }
