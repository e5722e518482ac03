package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"penstock/schema"
	"penstock/schema/hf"
	"penstock/stages/internal/chat"
	"penstock/stages/internal/features"
	"penstock/stages/internal/prepare"
	"penstock/stages/internal/tokenizer"
)

// maskToken is the token that draft.mask_token_id -1 stands for.
const maskToken = "<|mask|>"

// Inputs checks what a configuration names: target, taps, tokenizer, chat template, data, prompts, drafter to start from.
// The target is returned open for the memory plan, nil if it cannot be.
func Inputs(cfg schema.Config) (Checks, *hf.Target) {
	var c Checks
	t, err := hf.OpenTarget(cfg.Target.Dir)
	if err != nil {
		c.bad("target", "%v", err)
	} else {
		c.good("target", "%s: %s, %d layers, hidden %d, vocabulary %d", cfg.Target.Dir, t.Architecture, t.Layers, t.HiddenSize, t.VocabSize)
		checkTaps(&c, cfg, t)
		if cfg.Data.MaxLength > t.MaxPositions {
			c.bad("data.max_length", "%d exceeds the target's %d positions: lower it", cfg.Data.MaxLength, t.MaxPositions)
		}
	}
	checkText(&c, cfg, t)
	for _, name := range cfg.Data.Files {
		files, err := prepare.Expand([]string{name})
		if err != nil {
			c.bad("data", "%v", err)
		}
		for _, path := range files {
			checkFile(&c, "data", path)
		}
	}
	if cfg.Target.Features != "" {
		checkFeatures(&c, cfg, t)
	}
	if cfg.Eval.Prompts != "" {
		checkFile(&c, "eval.prompts", cfg.Eval.Prompts)
	}
	if dir, ok := strings.CutPrefix(cfg.Draft.Init, "path:"); ok {
		checkDrafter(&c, dir, cfg, t)
	}
	return c, t
}

func checkTaps(c *Checks, cfg schema.Config, t *hf.Target) {
	for _, tap := range cfg.Target.Taps {
		if tap >= t.Layers {
			c.bad("target.taps", "%d is outside the target, whose layers are 0..%d", tap, t.Layers-1)
		}
	}
}

// checkText checks tokenizer, chat template and mask token. t is nil if the target could not be opened.
func checkText(c *Checks, cfg schema.Config, t *hf.Target) {
	tok, err := tokenizer.Load(filepath.Join(cfg.Target.Dir, "tokenizer.json"))
	if err != nil {
		c.bad("tokenizer", "%v", err)
		return
	}
	if t != nil && tok.VocabSize() > t.VocabSize {
		c.bad("tokenizer", "has %d tokens, the target's vocabulary %d: it belongs to another model", tok.VocabSize(), t.VocabSize)
	} else {
		c.good("tokenizer", "%d tokens", tok.VocabSize())
	}
	if err := tryTemplate(cfg.Target.Dir, tok); err != nil {
		c.bad("chat template", "%v", err)
	} else {
		c.good("chat template", "marks the assistant's tokens")
	}
	id := cfg.Draft.MaskTokenID
	if id < 0 {
		found, ok := tok.ID(maskToken)
		if !ok {
			c.bad("draft.mask_token_id", "the tokenizer has no %s: name the id of an unused token", maskToken)
			return
		}
		id = int(found)
	}
	if t != nil && id >= t.VocabSize {
		c.bad("draft.mask_token_id", "%d is outside the target's vocabulary 0..%d", id, t.VocabSize-1)
		return
	}
	c.good("mask token", "%d", id)
}

// tryTemplate renders a conversation and requires supervised tokens in it.
func tryTemplate(dir string, tok *tokenizer.Tokenizer) error {
	tpl, err := chat.Load(dir, tok)
	if err != nil {
		return err
	}
	_, mask, err := tpl.Encode(chat.Talk(chat.Message{Role: "user", Content: "One?"}, chat.Message{Role: chat.Assistant, Content: "Two."}), chat.Policy{})
	if err != nil {
		return err
	}
	for _, m := range mask {
		if m != 0 {
			return nil
		}
	}
	return fmt.Errorf("the template of %s marks nothing that the assistant says", dir)
}

// checkFeatures checks stored features against target and taps; whether they are of the run's data shows when it is prepared.
func checkFeatures(c *Checks, cfg schema.Config, t *hf.Target) {
	r, err := features.Open(cfg.Target.Features)
	if err != nil {
		c.bad("target.features", "%v", err)
		return
	}
	defer r.Close()
	if t != nil {
		var mark string
		if mark, err = t.Fingerprint(); err == nil {
			err = errors.Join(r.Check(r.Data, cfg.Target.Taps, t.HiddenSize), r.CheckTarget(mark))
		}
	}
	if err != nil {
		c.bad("target.features", "%s: %v", cfg.Target.Features, err)
		return
	}
	c.good("target.features", "%s: %d documents", cfg.Target.Features, r.Documents)
}

func checkFile(c *Checks, name, path string) {
	f, err := os.Open(path)
	if err != nil {
		c.bad(name, "%v", err)
		return
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		c.bad(name, "%v", err)
	case info.IsDir():
		c.bad(name, "%s is a directory: name a file", path)
	case info.Size() == 0:
		c.bad(name, "%s is empty", path)
	default:
		c.good(name, "%s, %s", path, Bytes(info.Size()))
	}
}

func checkDrafter(c *Checks, dir string, cfg schema.Config, t *hf.Target) {
	d, err := hf.ReadDrafter(dir)
	if err != nil {
		c.bad("draft.init", "%v", err)
		return
	}
	defer d.Close()
	if t != nil {
		err = d.CheckTarget(t)
	}
	switch {
	case err != nil:
		c.bad("draft.init", "%s: %v", dir, err)
	case d.BlockSize != cfg.Draft.BlockSize || d.Layers != cfg.Draft.Layers:
		c.bad("draft.init", "%s has %d layers and blocks of %d, the configuration %d and %d", dir, d.Layers, d.BlockSize, cfg.Draft.Layers, cfg.Draft.BlockSize)
	default:
		c.good("draft.init", "%s", dir)
	}
}
