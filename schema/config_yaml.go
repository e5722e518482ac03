package schema

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// YAML returns the configuration as a file that LoadConfig and ParseConfig read, every key with what it means.
func (c Config) YAML() ([]byte, error) {
	var root yaml.Node
	if err := root.Encode(c); err != nil {
		return nil, fmt.Errorf("configuration to YAML: %w", err)
	}
	annotate(&root, "")
	root.HeadComment = "The resolved configuration of a run."
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&root); err != nil {
		return nil, fmt.Errorf("configuration to YAML: %w", err)
	}
	return out.Bytes(), e.Close()
}

// annotate writes lists on one line and gives every value its meaning.
func annotate(n *yaml.Node, prefix string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := join(prefix, n.Content[i].Value), n.Content[i+1]
		switch val.Kind {
		case yaml.MappingNode:
			annotate(val, key)
			continue
		case yaml.SequenceNode:
			val.Style = yaml.FlowStyle
		}
		val.LineComment = meaning[key]
	}
}

// meaning explains every key in a few words.
var meaning = map[string]string{
	"seed":                "of initialisation, plan, anchors and noise",
	"deterministic":       "bit-identical results whatever runs where",
	"device":              "cpu, cpu/PATH, cuda:K, or cuda:A-B for several GPUs; cuda:K/float32: all in that; sleep/FILE and null compute nothing",
	"mps":                 "let processes on one GPU run at the same time",
	"target.dir":          "Hugging Face directory of the frozen model",
	"target.instances":    "target processes",
	"target.slots":        "capture slots of each",
	"target.features":     "folder of stored features to read instead of running it",
	"target.taps":         "layers whose outputs are captured, from 0",
	"pack.instances":      "pack processes",
	"pack.slots":          "packed batches each may hold",
	"pack.noise":          "uniform noise on the captures, ±this",
	"data.files":          "chats to train on: files, folders or patterns",
	"data.max_length":     "tokens; longer documents are cut",
	"data.buckets":        "upper edges in tokens, or auto:N",
	"data.turns":          "all of the assistant's turns, or the last",
	"data.thinking":       "train on it, or skip it",
	"data.held_out":       "share of the documents kept from training",
	"data.store":          "folder of prepared stores; empty: in the run directory",
	"batch.tokens":        "at most, in a batch",
	"window.batches":      "batches of an optimizer step",
	"window.lookahead":    "windows published ahead",
	"train.anchors":       "at most, per document and epoch",
	"train.slots":         "whose activations a drafter holds at once, at most: a larger batch is computed piece by piece; 0: no limit",
	"train.lr":            "peak learning rate",
	"train.loss":          "dflash or dpace",
	"train.gamma":         "decay over the block's positions (dflash); 0: none",
	"train.alpha":         "floor of the confidence (dpace)",
	"train.epochs":        "passes over the data",
	"train.max_steps":     "end after so many steps; 0: all epochs",
	"train.warmup":        "share of the steps",
	"train.schedule":      "after the warm-up: cosine, linear, constant or wsd (constant, then linear to 0)",
	"train.cooldown":      "wsd: share of the steps in which the rate declines",
	"train.beta1":         "AdamW",
	"train.beta2":         "AdamW",
	"train.weight_decay":  "AdamW, decoupled",
	"train.clip":          "largest gradient norm",
	"train.max_rejected":  "share of bad batches at which the run stops",
	"draft.block_size":    "tokens of a block, the anchor's included",
	"draft.layers":        "decoder layers of the drafter",
	"draft.window":        "sliding attention in all layers but the last; 0: none",
	"draft.mask_token_id": "-1: the tokenizer's <|mask|>",
	"draft.init":          "target, random or path:DIR",
	"draft.ranks":         "drafter processes",
	"draft.reduce":        "how they add up: auto, between GPUs by NCCL, layer by layer; end, at a window's end alone; or host",
	"eval.prompts":        "held-out prompts; empty: no evaluation",
	"eval.every":          "steps between evaluations; 0: only at the end",
	"eval.limit":          "prompts of an evaluation",
	"eval.max_new":        "tokens of each answer",
	"broker.url":          "external NATS server; empty: the embedded broker",
	"broker.host":         "address that the embedded broker binds",
	"broker.port":         "0: any free port",
	"broker.ack_wait":     "until unacknowledged work is given out again",
	"broker.sync":         "default, or always: sync each write to disk",
	"broker.credentials":  "for an external server: a file of NATS credentials, or the keys/ of the run whose broker it is",
	"broker.tls_cert":     "file of the embedded broker's certificate; without one it listens on loopback only",
	"broker.tls_key":      "file of the certificate's key",
	"broker.tls_ca":       "file of certificates that clients check the server's against; empty: the system's",
	"save.every":          "steps between checkpoints, more where saving would take over a fortieth of the time; 0: only at the end",
	"save.keep":           "checkpoints kept",
	"metrics.host":        "address at which each process answers Prometheus",
	"metrics.port":        "0: any free port, written to metrics/ in the run directory; up gives each process its own from here on",
	"page.host":           "address at which up shows the run",
	"traces.sample":       "share of the batches that are traced, if OTEL_TRACES_SAMPLER names no sampler",
	"page.port":           "0: any free port, written to page.url in the run directory",
}
