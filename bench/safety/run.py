"""`python -m bench safety`."""
import sys, time
from bench.safety.stage import stage, people, start


def main(options):
    hours, seed = float(options[0]), int(options[1])
    faulty = "free" not in options
    began = time.process_time()
    with stage(seed, faulty=faulty) as s:
        start(s.world)
        people(s, seed, hours*3600, meddle=faulty)
        built = time.process_time()-began
        s.world.run(hours=hours)
        mid = time.process_time()-began
        s.calm()
        s.world.run(hours=1)
        print(built, mid, time.process_time()-began, "h/s", hours/(mid-built))
        print("machines", len(s.machines()), "living", [m for m in s.machines() if m.alive], "paid", s.paid_seconds(), "orders", s.orders.orders, "handovers", s.leader.hand_overs, "orphan", s.orphans.oldest)
        print({o["metadata"]["name"]: o.get("status",{}).get("message") for o in s.world.api.backstage.objects(__import__("tgp.api.resource",fromlist=["x"]).GPU_REQUEST)})
    return 0
