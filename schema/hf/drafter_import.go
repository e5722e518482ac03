package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

const drafterArchitecture = "DFlashDraftModel"

// dflashConfig is the part of a drafter's configuration that servers read beside the usual keys.
type dflashConfig struct {
	Taps         []int `json:"target_layer_ids"`
	Mask         *int  `json:"mask_token_id"`
	BlockSize    *int  `json:"block_size"`
	TargetLayers *int  `json:"num_target_layers"`
	Causal       *bool `json:"causal"`

	strange []string // other keys that say something
}

// dflashKeys are the keys whose meaning is known here. mask_token names the mask token that mask_token_id numbers.
var dflashKeys = []string{"target_layer_ids", "mask_token_id", "block_size", "num_target_layers", "causal", "mask_token"}

func (d *dflashConfig) UnmarshalJSON(b []byte) error {
	type plain dflashConfig
	if err := json.Unmarshal(b, (*plain)(d)); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(dflashKeys, key) && !saysNothing(key, all[key]) {
			d.strange = append(d.strange, fmt.Sprintf("%s: %s", key, all[key]))
		}
	}
	return nil
}

// saysNothing tells a value that leaves a drafter as it is: off, or what every drafter has.
func saysNothing(key string, value json.RawMessage) bool {
	text := string(bytes.TrimSpace(value))
	switch key {
	case "use_aux_hidden_state":
		return text == "true" || text == "null"
	case "output_multiplier":
		return text == "1" || text == "1.0" || text == "null"
	}
	return slices.Contains([]string{"null", "false", "0", "0.0", `""`, "[]", "{}"}, text)
}

// foreign returns every reason why a drafter is not one that this package knows: read as one, it would compute something
// else than where it comes from.
func (c *config) foreign() error {
	var errs []error
	if len(c.Architectures) > 0 && !slices.Contains(c.Architectures, drafterArchitecture) {
		errs = append(errs, fmt.Errorf("architectures: %q is not supported, only %s is", c.Architectures, drafterArchitecture))
	}
	for _, s := range c.DFlash.strange {
		errs = append(errs, fmt.Errorf("dflash_config.%s is not supported", s))
	}
	if !or(c.NeoX, true) {
		errs = append(errs, errors.New("is_neox_style: false is not supported"))
	}
	sliding := slices.Contains(c.LayerTypes, SlidingAttention)
	for key, causal := range map[string]*bool{"is_causal": c.Causal, "dflash_config.causal": c.DFlash.Causal} {
		switch {
		case causal == nil:
		case *causal:
			errs = append(errs, fmt.Errorf("%s: true is not supported: full layers see their whole block", key))
		case sliding:
			errs = append(errs, fmt.Errorf("%s: false is not supported beside sliding layers, which are causal in their block", key))
		}
	}
	return errors.Join(errs...)
}
