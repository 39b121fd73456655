"""Dependencies of a project's manager."""

from rookery.app.manager_features import ManagerFeatures
from rookery.manager.dependencies import Form


class ProjectDependencies(ManagerFeatures):
    def document(self, task_id: str, form: Form) -> str:
        from rookery.storage.cli.session_commands import session_document

        return session_document(self.tasks, task_id, form)
