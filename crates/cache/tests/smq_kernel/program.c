/* Plays a script of accesses (stdin) with the kernel's smq, and prints each decision. `smq_kernel.rs` compares them with
 * ours. The kernel's files are included from where it was unpacked; nothing of them is here. */
#include "kernel.h"

unsigned long jiffies;

#include "dm-cache-background-tracker.c"
#undef DM_MSG_PREFIX
#include "dm-cache-policy-smq.c"

int dm_cache_policy_register(struct dm_cache_policy_type *type) { return !type; }
void dm_cache_policy_unregister(struct dm_cache_policy_type *type) { (void)type; }

enum { MOST = 1 << 20 };

static struct dm_cache_policy *policy;
static struct { struct policy_work *work; bool overwritten; } running[MOST];
static unsigned running_count;
static int64_t cached_at[MOST];

static void print_work(struct policy_work *work, bool overwritten)
{
    static const char *const names[] = { [POLICY_PROMOTE] = "promote", [POLICY_DEMOTE] = "demote",
                                         [POLICY_WRITEBACK] = "writeback" };
    if (!work) {
        puts("none");
        return;
    }
    printf("%s %lu %u\n", names[work->op], (unsigned long)work->oblock, work->cblock);
    running[running_count].work = work;
    running[running_count++].overwritten = overwritten;
}

static void look_up(unsigned long block, bool write, bool fast)
{
    dm_cblock_t cache_block;
    bool background = false;
    if (policy->lookup(policy, block, &cache_block, write ? WRITE : READ, fast, &background) == 0)
        printf("hit %u\n", cache_block);
    else
        printf("miss %d\n", background);
}

static void overwrite(unsigned long block)
{
    dm_cblock_t cache_block;
    struct policy_work *work = NULL;
    if (policy->lookup_with_work(policy, block, &cache_block, WRITE, true, &work) == 0)
        printf("hit %u\n", cache_block);
    else
        print_work(work, true);
}

/* Work ends; a target then says whether the cache block is dirty. */
static void complete(unsigned which, bool success)
{
    struct policy_work *work = running[which].work;
    enum policy_operation operation = work->op;
    dm_oblock_t block = work->oblock;
    dm_cblock_t cache_block = work->cblock;
    bool overwritten = running[which].overwritten;

    running_count--;
    memmove(running + which, running + which + 1, (running_count - which) * sizeof *running);
    if (success && operation != POLICY_PROMOTE)
        policy->clear_dirty(policy, cache_block);
    policy->complete_background_work(policy, work, success);
    if (success && operation == POLICY_DEMOTE)
        cached_at[block] = -1;
    if (success && operation == POLICY_PROMOTE) {
        cached_at[block] = cache_block;
        (overwritten ? policy->set_dirty : policy->clear_dirty)(policy, cache_block);
    }
}

static void load(unsigned long block, unsigned cache_block, bool dirty)
{
    policy->load_mapping(policy, block, cache_block, dirty, 0, false);
    cached_at[block] = cache_block;
}

int main(void)
{
    unsigned long first, second, third;
    char command;

    if (scanf("%lu %lu %lu", &first, &second, &third) != 3)
        return 1;
    policy = smq_create(first, second * third, third); /* cache blocks, blocks of the origin, sectors of a block */
    memset(cached_at, -1, sizeof cached_at);
    while (scanf(" %c %lu %lu %lu", &command, &first, &second, &third) == 4) {
        struct policy_work *work = NULL;
        switch (command) {
        case 'a': look_up(first, second, third); break;
        case 'o': overwrite(first); break;
        case 'b': policy->get_background_work(policy, first, &work); print_work(work, false); break;
        case 'c': if (first < running_count) complete(first, second); break;
        case 'd': if (cached_at[first] >= 0)
                      (second ? policy->set_dirty : policy->clear_dirty)(policy, cached_at[first]);
                  break;
        case 'l': load(first, second, third); break;
        case 't': jiffies = first; policy->tick(policy, true); break;
        }
    }
    printf("residency %u\n", policy->residency(policy));
    for (first = 0; first < MOST; first++)
        if (cached_at[first] >= 0)
            printf("%lu at %ld level %u\n", first, (long)cached_at[first], policy->get_hint(policy, cached_at[first]));
    return 0;
}
