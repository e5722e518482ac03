package schema

// Config is the whole configuration of a run: the resolved form stands in config.yaml of the run directory.
// Validate is its only check. Fields marked arithmetic change the result and are refused on resume.
type Config struct {
	Seed          uint64 `yaml:"seed" arith:"true"`
	Deterministic bool   `yaml:"deterministic" arith:"true"`
	Device        string `yaml:"device"` // cpu, cpu/PATH (a matrix product), cuda[:K or :A-B][/float32], null (empty work), or sleep/FILE (a scenario's times)
	MPS           bool   `yaml:"mps"`    // `penstock up` starts NVIDIA's Multi-Process Service where stages share a GPU and it is there

	Target TargetConfig `yaml:"target"`
	Pack   PackConfig   `yaml:"pack"`
	Data   DataConfig   `yaml:"data"`
	Batch  BatchConfig  `yaml:"batch"`
	Window WindowConfig `yaml:"window"`
	Train  TrainConfig  `yaml:"train"`
	Draft  DraftConfig  `yaml:"draft"`
	Eval   EvalConfig   `yaml:"eval"`
	Broker BrokerConfig `yaml:"broker"`
	Save   SaveConfig   `yaml:"save"`

	Metrics ListenConfig `yaml:"metrics"` // each process answers Prometheus there; `penstock up` gives its nth one the port + n - 1
	Page    ListenConfig `yaml:"page"`    // `penstock up` shows the run there
	Traces  TracesConfig `yaml:"traces"`
}

// Processes is how many processes `penstock up` starts: the broker, unless an external one is named, and every stage.
func (c *Config) Processes() int {
	n := 1 + c.Target.Instances + c.Pack.Instances + c.Draft.Ranks
	if c.Broker.URL == "" {
		n++
	}
	return n
}

// TargetConfig is the frozen model and its instances.
type TargetConfig struct {
	Dir       string `yaml:"dir" arith:"path"`
	Instances int    `yaml:"instances"`
	Slots     int    `yaml:"slots"`                 // capture slots an instance
	Taps      []int  `yaml:"taps" arith:"true"`     // i means the output of layer i, counted from 0
	Features  string `yaml:"features" arith:"path"` // folder of stored features to read instead of running the model; empty: run it
}

// PackConfig is the pack stage.
type PackConfig struct {
	Instances int     `yaml:"instances"`
	Slots     int     `yaml:"slots"`
	Noise     float64 `yaml:"noise" arith:"true"` // uniform in ±noise, added to the captures; 0 for none
}

// DataConfig says what is trained on.
type DataConfig struct {
	Files     []string `yaml:"files" arith:"path"`      // data files, folders of them, or patterns such as chats/*.jsonl.gz
	MaxLength int      `yaml:"max_length" arith:"true"` // tokens; longer documents are cut and counted
	Buckets   string   `yaml:"buckets" arith:"true"`    // upper edges in tokens, comma-separated, or auto:N
	Turns     string   `yaml:"turns" arith:"true"`      // of the assistant that are trained on: all or last
	Thinking  string   `yaml:"thinking" arith:"true"`   // in those turns: train on it, or skip it
	HeldOut   float64  `yaml:"held_out" arith:"true"`   // share of the documents that is kept from training, chosen by their hash
	Store     string   `yaml:"store"`                   // folder of prepared stores; empty: store/ in the run directory
}

// BatchConfig sizes batches.
type BatchConfig struct {
	Tokens int `yaml:"tokens" arith:"true"` // of a batch, at most; a longer document makes a batch alone
}

// WindowConfig sizes optimizer steps: Batches batches a step, Lookahead windows published ahead.
type WindowConfig struct {
	Batches   int `yaml:"batches" arith:"true"`
	Lookahead int `yaml:"lookahead"`
}

// TrainConfig is the training recipe.
type TrainConfig struct {
	Anchors  int     `yaml:"anchors" arith:"true"` // at most, per document and epoch
	Slots    int     `yaml:"slots" arith:"true"`   // whose activations a drafter holds at once, at most; 0: all of a batch's
	LR       float64 `yaml:"lr" arith:"true"`
	Loss     string  `yaml:"loss" arith:"true"`  // dflash or dpace
	Gamma    float64 `yaml:"gamma" arith:"true"` // decay of the dflash loss; 0 for none
	Alpha    float64 `yaml:"alpha" arith:"true"` // floor of the dpace loss
	Epochs   int     `yaml:"epochs" arith:"true"`
	MaxSteps int     `yaml:"max_steps" arith:"true"` // 0: all of the epochs
	Warmup   float64 `yaml:"warmup" arith:"true"`    // share of the steps
	Schedule string  `yaml:"schedule" arith:"true"`  // cosine, linear, constant or wsd after the warm-up
	Cooldown float64 `yaml:"cooldown" arith:"true"`  // wsd: share of the steps in which the rate declines to 0
	Beta1    float64 `yaml:"beta1" arith:"true"`
	Beta2    float64 `yaml:"beta2" arith:"true"`
	Decay    float64 `yaml:"weight_decay" arith:"true"`
	Clip     float64 `yaml:"clip" arith:"true"`

	MaxRejected float64 `yaml:"max_rejected"` // share of the batches that may be given up as bad before the run is
}

// DraftConfig is the drafter and its ranks.
type DraftConfig struct {
	BlockSize   int    `yaml:"block_size" arith:"true"`
	Layers      int    `yaml:"layers" arith:"true"`
	Window      int    `yaml:"window" arith:"true"`        // sliding window of all layers but the last; 0 for none
	MaskTokenID int    `yaml:"mask_token_id" arith:"true"` // -1: the tokenizer's <|mask|>
	Init        string `yaml:"init" arith:"true"`          // target, random, or path:DIR
	Ranks       int    `yaml:"ranks"`
	Reduce      string `yaml:"reduce"` // how ranks add up: auto, by NCCL where it can, layer by layer; end, that at a window's end; or host
}

// EvalConfig is the periodic acceptance measurement on held-out prompts.
type EvalConfig struct {
	Prompts string `yaml:"prompts"`
	Every   int    `yaml:"every"` // steps; 0: only at the end
	Limit   int    `yaml:"limit"`
	MaxNew  int    `yaml:"max_new"`
}

// BrokerConfig is the embedded server or the external one.
type BrokerConfig struct {
	URL     string `yaml:"url"`  // empty: the embedded broker
	Host    string `yaml:"host"` // address the embedded broker binds
	Port    int    `yaml:"port"` // 0: any free port
	AckWait string `yaml:"ack_wait"`
	Sync    string `yaml:"sync"` // default or always

	Credentials string `yaml:"credentials"` // for an external server: a file of NATS credentials, or a folder of keys
	TLSCert     string `yaml:"tls_cert"`    // file of the embedded broker's certificate; without one it listens on loopback only
	TLSKey      string `yaml:"tls_key"`
	TLSCA       string `yaml:"tls_ca"` // file of certificates that clients check the server's against; empty: the system's
}

// ListenConfig is where HTTP is served. The port taken stands in the run directory.
type ListenConfig struct {
	Host string `yaml:"host"`
	Port int    `yaml:"port"` // 0: any free port
}

// TracesConfig says which batches are traced, where OTEL_TRACES_SAMPLER does not.
type TracesConfig struct {
	Sample float64 `yaml:"sample"` // share of the batches, each whole or not at all
}

// SaveConfig is what is kept.
type SaveConfig struct {
	Every int `yaml:"every"` // steps between checkpoints; 0: only at the end
	Keep  int `yaml:"keep"`
}
