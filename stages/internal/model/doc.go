// Package model is the arithmetic of training, written once against kernels.Device:
//
//   - Target: the frozen decoder of any family that package hf reads. Forward captures the tapped layers of packed documents; Session decodes with a
//     key and value cache.
//   - Drafter: the DFlash drafter. Step runs forward, loss and backward on one Batch and adds to the gradients;
//     Optimizer turns a window's sum into a step; DraftSession proposes blocks.
//   - Decode: greedy speculative decoding, which measures acceptance.
//
// Ops are enqueued; a device's failure surfaces at the methods that return results (Step, Optimizer.Step, Decode) or at
// Device.Sync. Everything that shares a device belongs to one goroutine.
//
// Shapes are written as in package kernels; K is the number of taps, R the number of supervised slots.
package model
