package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// Access is how a client proves who it is. The zero value is a server that asks nobody.
type Access struct {
	Role        string // one of Roles; it also names the inbox
	Key         string // file of the role's key, made by MakeKeys
	Credentials string // file of NATS credentials, for a server that is not ours
	CA          string // file of certificates that the server's is checked against; empty: the system's
}

// KeyFile is the file of a role's key in a folder of keys.
func KeyFile(folder, role string) string { return filepath.Join(folder, role+".nk") }

// MakeKeys makes the keys that are missing in folder, each in a file that only its owner may read.
func MakeKeys(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	for _, role := range Roles {
		if err := makeKey(KeyFile(folder, role)); err != nil {
			return fmt.Errorf("key of %s: %w", role, err)
		}
	}
	return nil
}

func makeKey(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(append(seed, '\n')); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) { // another process may have been first
		return err
	}
	return nil
}

// users are the server's, read from a folder of keys. A key that others may read is refused: it is no secret.
func users(folder string) ([]*server.NkeyUser, error) {
	var list []*server.NkeyUser
	for _, role := range Roles {
		pub, err := publicKey(KeyFile(folder, role))
		if err != nil {
			return nil, fmt.Errorf("key of %s: %w", role, err)
		}
		list = append(list, &server.NkeyUser{Nkey: pub, Permissions: permissions(role)})
	}
	return list, nil
}

func publicKey(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s may be read by others (mode %o): remove it, and a new one is made", path, info.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedUserNKey(b)
	clear(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}
