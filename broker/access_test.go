package broker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
)

// guarded is a server with keys, on which a generation is open.
func guarded(t *testing.T) (url, keys string) {
	t.Helper()
	keys = filepath.Join(t.TempDir(), "keys")
	s, err := broker.StartServer(brokertest.Context(t), broker.ServerConfig{Host: "127.0.0.1", Store: t.TempDir(), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	brokertest.Open(t, as(t, s.URL(), keys, broker.RoleDraft), 1, 4, "b64")
	return s.URL(), keys
}

func as(t *testing.T, url, keys, role string) *broker.Conn {
	t.Helper()
	c, err := broker.Dial(brokertest.Context(t), url, role+"-1", broker.Options{Access: broker.Access{Role: role, Key: broker.KeyFile(keys, role)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// deeds are what the stages do, each with the roles whose work it is.
var deeds = []struct {
	name  string
	roles []string
	do    func(ctx context.Context, c *broker.Conn) error
}{
	{"publish a root", []string{broker.RoleBatch}, func(ctx context.Context, c *broker.Conn) error {
		return broker.NewPublisher(c, broker.Fwd).Publish(ctx, "b64", schema.Root{}, "")
	}},
	{"read the roots back", []string{broker.RoleBatch}, func(ctx context.Context, c *broker.Conn) error {
		_, err := broker.Stored(ctx, c, broker.Fwd, "b64")
		return err
	}},
	{"publish captures", []string{broker.RoleTarget}, func(ctx context.Context, c *broker.Conn) error {
		return broker.NewPublisher(c, broker.Pack).Publish(ctx, "b64", schema.Hop{}, "")
	}},
	{"publish features", []string{broker.RolePack}, func(ctx context.Context, c *broker.Conn) error {
		return broker.NewPublisher(c, broker.Train).Publish(ctx, "b64", schema.Hop{}, "")
	}},
	{"release a slot", []string{broker.RolePack, broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		return broker.NewPublisher(c, broker.Rel).Publish(ctx, "target-1", schema.Release{}, "")
	}},
	{"pull roots", []string{broker.RoleTarget}, func(ctx context.Context, c *broker.Conn) error {
		p, err := c.Roots(ctx, 1, "b64")
		if err != nil {
			return err
		}
		defer p.Close(ctx)
		for range 50 { // the refusal comes a moment after the request
			if _, err = p.FetchNoWait(ctx); !errors.Is(err, broker.ErrEmpty) {
				return err
			}
		}
		return nil
	}},
	{"take releases", []string{broker.RoleTarget, broker.RolePack, broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		s, err := c.Releases(ctx, "pool-1", time.Second)
		if err != nil {
			return err
		}
		return s.Close(ctx)
	}},
	{"hand a root back", []string{broker.RoleTarget, broker.RolePack, broker.RoleDraft, broker.RoleUp}, func(ctx context.Context, c *broker.Conn) error {
		return unless(c.NakRoot(ctx, "$JS.ACK.PS_FWD.fwd-9-none.1.1.1.1.0", 0), broker.ErrGone)
	}},
	{"acknowledge captures", []string{broker.RolePack, broker.RoleUp}, func(ctx context.Context, c *broker.Conn) error {
		return unless(c.AckRoot(ctx, "$JS.ACK.PS_PACK.pack-9.1.1.1.1.0"), broker.ErrGone)
	}},
	{"acknowledge features", []string{broker.RoleDraft, broker.RoleUp}, func(ctx context.Context, c *broker.Conn) error {
		return unless(c.AckRoot(ctx, "$JS.ACK.PS_TRAIN.train-9.1.1.1.1.0"), broker.ErrGone)
	}},
	{"reject a batch", []string{broker.RolePack, broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		_, err := c.Ledger().Dead(ctx, schema.Dead{Batch: schema.Batch{Gen: 9, Index: 7}}, 0)
		return err
	}},
	{"commit a window", []string{broker.RoleDraft, broker.RoleUp}, func(ctx context.Context, c *broker.Conn) error {
		_, err := c.Ledger().Commit(ctx, schema.Commit{Gen: 9}, 0)
		return err
	}},
	{"prepare a window", []string{broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		_, err := c.Ledger().Prepared(ctx, schema.Prepared{Gen: 9, Rank: "draft-1"}, 0)
		return err
	}},
	{"open a generation", []string{broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		return c.OpenGeneration(ctx, brokertest.Generation(1, 4, "b64"))
	}},
	{"move credit", []string{broker.RoleBatch, broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		info, err := c.Credit(ctx, 1, "b64")
		if err != nil {
			return err
		}
		return c.SetCredit(ctx, 1, "b64", 7-info.Limit) // 4 and 3 in turn
	}},
	{"announce the plan", []string{broker.RoleBatch}, func(ctx context.Context, c *broker.Conn) error {
		return c.Board().Put(ctx, "plan", schema.PlanInfo{})
	}},
	{"announce a pool", []string{broker.RoleTarget, broker.RolePack, broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		return c.Board().Put(ctx, "pool.x", schema.PoolInfo{})
	}},
	{"report progress", []string{broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		return c.Board().Put(ctx, "progress", schema.Progress{})
	}},
	{"report oneself", []string{broker.RoleBatch, broker.RoleTarget, broker.RolePack, broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		return c.Board().Put(ctx, "stage.x", schema.StageState{})
	}},
	{"ask for the end", []string{broker.RoleUp}, func(ctx context.Context, c *broker.Conn) error {
		return c.Board().Put(ctx, "control", schema.Control{})
	}},
	{"take a hint off the board", []string{broker.RoleUp, broker.RoleDraft}, func(ctx context.Context, c *broker.Conn) error {
		return c.Board().Remove(ctx, "none")
	}},
	{"reset the packers", []string{broker.RoleUp, broker.RoleBatch}, func(ctx context.Context, c *broker.Conn) error {
		return c.ResetHops(ctx, broker.Pack)
	}},
	{"read the board", broker.Roles, func(ctx context.Context, c *broker.Conn) error {
		_, err := c.Board().List(ctx, ">")
		return err
	}},
	{"read the ledger", broker.Roles, func(ctx context.Context, c *broker.Conn) error {
		_, _, err := c.Ledger().State(ctx, broker.LedgerAll)
		return err
	}},
}

func unless(err, fine error) error {
	if errors.Is(err, fine) {
		return nil
	}
	return err
}

// TestRolesDoTheirWorkAndNothingElse tries every deed as every role.
func TestRolesDoTheirWorkAndNothingElse(t *testing.T) {
	url, keys := guarded(t)
	for _, role := range broker.Roles {
		if role == broker.RoleBroker { // the server itself may do everything
			continue
		}
		c := as(t, url, keys, role)
		for _, d := range deeds {
			began := time.Now()
			err := d.do(brokertest.Context(t), c)
			may := slices.Contains(d.roles, role)
			switch {
			case may && err != nil:
				t.Errorf("%s may not %s: %v", role, d.name, err)
			case !may && !errors.Is(err, broker.ErrDenied):
				t.Errorf("%s may %s (error %v)", role, d.name, err)
			case !may && time.Since(began) > 2*time.Second:
				t.Errorf("%s: refusal to %s took %v", role, d.name, time.Since(began))
			}
		}
	}
}

func TestObserverReadsAlongAndNobodyElse(t *testing.T) {
	url, keys := guarded(t)
	for _, role := range []string{broker.RoleObserver, broker.RoleTarget} {
		refused := make(chan error, 8)
		key, err := nats.NkeyOptionFromSeed(broker.KeyFile(keys, role))
		if err != nil {
			t.Fatal(err)
		}
		nc, err := nats.Connect(url, key, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		sub, err := nc.SubscribeSync("ps.>")
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		if role == broker.RoleTarget {
			if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("a target reads along: %v", err)
			}
			continue
		}
		if err := broker.NewPublisher(as(t, url, keys, broker.RoleBatch), broker.Fwd).Publish(brokertest.Context(t), "b64", schema.Root{}, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := sub.NextMsg(brokertest.Patience); err != nil {
			t.Errorf("the observer sees nothing: %v", err)
		}
	}
}

func TestNobodyIn(t *testing.T) {
	url, keys := guarded(t)
	foreign := filepath.Join(t.TempDir(), "keys")
	if err := broker.MakeKeys(foreign); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]broker.Access{
		"no key":        {Role: broker.RoleTarget},
		"a foreign key": {Role: broker.RoleTarget, Key: broker.KeyFile(foreign, broker.RoleTarget)},
	} {
		if c, err := broker.Dial(brokertest.Context(t), url, "guest", broker.Options{Access: a}); err == nil {
			c.Close()
			t.Errorf("%s: let in", name)
		}
	}
	for _, role := range broker.Roles {
		info, err := os.Stat(broker.KeyFile(keys, role))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("key of %s: %v, %v", role, info.Mode(), err)
		}
	}
	if info, err := os.Stat(keys); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder of keys: %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(broker.KeyFile(foreign, broker.RoleUp), 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := broker.StartServer(brokertest.Context(t), broker.ServerConfig{Host: "127.0.0.1", Store: t.TempDir(), Keys: foreign}); err == nil {
		s.Close()
		t.Error("a key that everybody may read is used")
	}
	secret := "nats://somebody:hunter2@127.0.0.1:1"
	if _, err := broker.Dial(brokertest.Context(t), secret, "guest", broker.Options{}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret in a URL: %v", err)
	}
}

func TestTLSForAnythingButLoopback(t *testing.T) {
	start := func(cfg broker.ServerConfig) (*broker.Server, error) {
		cfg.Host, cfg.Store, cfg.Keys = "0.0.0.0", t.TempDir(), filepath.Join(t.TempDir(), "keys")
		s, err := broker.StartServer(brokertest.Context(t), cfg)
		if err == nil {
			t.Cleanup(s.Close)
		}
		return s, err
	}
	if _, err := start(broker.ServerConfig{}); err == nil || !strings.Contains(err.Error(), "broker.tls_cert") {
		t.Errorf("without TLS: %v", err)
	}
	cert, key := certificate(t, net.IPv4zero, net.IPv4(127, 0, 0, 1))
	s, err := start(broker.ServerConfig{TLSCert: cert, TLSKey: key, CA: cert})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.URL(), "tls://") {
		t.Errorf("its address is %s", s.URL())
	}
	stranger, _ := certificate(t, net.IPv4zero)
	if c, err := broker.Dial(brokertest.Context(t), s.URL(), "guest", broker.Options{Access: broker.Access{CA: stranger}}); err == nil {
		c.Close()
		t.Error("a server with a certificate of somebody else is trusted")
	}
}

// certificate makes a self-signed certificate for addresses.
func certificate(t *testing.T, ips ...net.IP) (cert, key string) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: ips,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &pair.PublicKey, pair)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
