"""Ask for approval at each stage: design, implementation, deployment. A rejection stops the program.

With ASSENT_URL and ASSENT_TOKEN set: python examples/multi_stage_approval.py "Dark mode"
"""

import sys
import uuid
from dataclasses import dataclass

from assent import Assent
from assent.sdk.files import ContextFile


@dataclass(frozen=True)
class Stage:
    name: str
    question: str
    title: str
    file: str

    def work(self, feature: str) -> str:
        """Produce the document that reviewers see."""
        return f"# {self.name} of {feature}\n"


STAGES = (
    Stage("Design", "Approve the design?", "Design Review", "artifacts/design.md"),
    Stage("Implementation", "Approve the implementation?", "Implementation Review", "artifacts/implementation.md"),
    Stage("Deployment", "Approve deployment to production?", "Deployment Approval", "artifacts/checklist.md"),
)


def approved(assent: Assent, stage: Stage, *, feature: str, run_id: str) -> bool:
    asked = assent.create(
        stage.question,
        agent_id="builder",
        run_id=run_id,
        title=stage.title,
        files=[ContextFile(stage.file, "markdown", stage.work(feature).encode())],
    )
    review = assent.wait(asked.id)
    said = review.result.feedback if review.result is not None else None
    print(f"{stage.name}: {'approved' if review.approved else 'stopped'}{f' ({said})' if said else ''}")
    return review.approved


def main(feature: str) -> None:
    run_id = f"run-{uuid.uuid4().hex[:8]}"
    with Assent() as assent:
        for stage in STAGES:
            if not approved(assent, stage, feature=feature, run_id=run_id):
                sys.exit(1)
    print(f"Deployed {feature}.")


if __name__ == "__main__":
    main(sys.argv[1])
