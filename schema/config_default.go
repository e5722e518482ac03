package schema

// Default returns the configuration to which a file and --set add. What it leaves empty must be given: the target, its
// taps and the data.
func Default() Config {
	return Config{
		Seed:   1,
		Device: "cpu",
		MPS:    true,
		Target: TargetConfig{Instances: 1, Slots: 3},
		Pack:   PackConfig{Instances: 1, Slots: 4},
		Data:   DataConfig{MaxLength: 3072, Buckets: "auto:8", Turns: "all", Thinking: "train"},
		Batch:  BatchConfig{Tokens: 8192},
		Window: WindowConfig{Batches: 8, Lookahead: 1},
		Train: TrainConfig{Anchors: 512, Slots: 1 << 16, LR: 6e-4, Loss: "dflash", Gamma: DefaultGamma(16), Alpha: 0.5, Epochs: 6,
			Warmup: 0.04, Schedule: "cosine", Cooldown: 0.2, Beta1: 0.9, Beta2: 0.999, Clip: 1, MaxRejected: 0.05},
		Draft:  DraftConfig{BlockSize: 16, Layers: 5, MaskTokenID: -1, Init: "target", Ranks: 1, Reduce: "auto"},
		Eval:   EvalConfig{Limit: 64, MaxNew: 160},
		Broker: BrokerConfig{Host: "127.0.0.1", AckWait: "30s", Sync: "default"},
		Save:   SaveConfig{Every: 200, Keep: 3},

		Metrics: ListenConfig{Host: "127.0.0.1"},
		Page:    ListenConfig{Host: "127.0.0.1"},
		Traces:  TracesConfig{Sample: 1},
	}
}

// DefaultGamma returns the decay of the dflash loss for a block size: 7 for 16, 5 for 10, 4 for 8, the nearest of these
// for others. It holds wherever train.gamma is not given.
func DefaultGamma(blockSize int) float64 {
	switch {
	case blockSize > 12:
		return 7
	case blockSize > 8:
		return 5
	}
	return 4
}
